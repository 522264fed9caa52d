"""Sweeps. Each runs one experiment with many combinations of settings, in parallel on a cluster."""
