"""Sweeps. Each measures one experiment over many combinations, in parallel on a cluster."""
