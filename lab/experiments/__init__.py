"""Experiments, which are TOML files that name arrays, workloads and rebuilds, and the runner that executes them."""
