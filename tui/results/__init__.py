"""Stored results: the Results screen."""
