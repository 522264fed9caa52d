"""Comparison of two results: whether they are comparable, their differences, and the significance of these."""
