"""Export fio's documents for fio-plot, and print the commands that draw them."""
