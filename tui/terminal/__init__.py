"""The terminal on the machine, and the commands that ran there."""
