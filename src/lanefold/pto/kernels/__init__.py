"""Compiled loops of the PTO simulator; importing a module of this folder imports the compiler."""
