"""Reports on results. The command line and the app show their tables, and a report can be written to a file."""
