"""Measures jobs, rebuilds, CPU cost and data integrity, with samples on the machine's clock."""
