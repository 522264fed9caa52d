"""Sweeps: one experiment over many combinations, its cells measured side by side on a cluster."""
