"""Exports fio's documents for fio-plot, with the commands that draw them."""
