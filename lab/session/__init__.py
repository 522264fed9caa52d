"""An open lab that somebody works with: what the command line and the app both stand on."""
