"""Running workloads, experiments and sweeps."""
