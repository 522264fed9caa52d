"""Reports, whose tables the command line and the app show, and which are written to files."""
