"""The only modules that access the host. They start processes, read files, read the clock and wait."""
