"""Modules that run on machines as well: they import each other and the standard library of Python 3.9, nothing else."""
