"""Checks and readings: what lessons, drills and their mistakes look at, one vocabulary for all TOML files."""
