"""The only modules that access the host. They start processes, read its files, read its clock and wait."""
