"""Reports: tables as values, which the command line, the app and files render."""
