"""The only modules of the client that start processes, read this computer's /proc and /sys, and wait."""
