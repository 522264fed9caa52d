"""Modules that also run on machines: they import only each other and the standard library of Python 3.9."""
