"""Reports: tables that the command line and the app show, and that are written to files."""
