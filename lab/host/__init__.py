"""The only modules that touch this computer: they start processes, read its files, tell the time and wait."""
