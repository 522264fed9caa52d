"""Reports as values: tables that the command line, the app and files show in their own ways."""
