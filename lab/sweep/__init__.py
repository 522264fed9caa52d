"""Sweeps. Each measures one experiment for many combinations of settings, in parallel on a cluster."""
