"""What comes out for people: tables, pages, traces, pictures."""
