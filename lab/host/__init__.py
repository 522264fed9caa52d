"""The only modules that access the host: they start processes, read its files, read its clock and wait."""
