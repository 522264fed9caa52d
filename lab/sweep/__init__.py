"""Sweeps: one experiment over many combinations, its cells measured in parallel on a cluster."""
