"""fio's documents as fio-plot reads them, and the commands that draw them."""
