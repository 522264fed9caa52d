"""Exports fio's documents for fio-plot, and prints the commands that draw them."""
