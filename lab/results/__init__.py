"""Immutable records of results, the folder that stores them, and statistics over repeated measurements."""
