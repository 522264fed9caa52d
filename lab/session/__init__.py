"""An open lab and its arrays: the common base of the command line and the app."""
