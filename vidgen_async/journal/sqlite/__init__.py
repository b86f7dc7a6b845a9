"""A journal in an SQLite file."""
