"""Checks and readings for lessons, drills and their mistakes: one vocabulary for all TOML files."""
