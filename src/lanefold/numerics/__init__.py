"""Shared ground of both instruction sets: element types, casts, operators, compiled loops."""
