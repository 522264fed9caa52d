"""The checks and readings that lessons, drills and their mistakes have in common."""
