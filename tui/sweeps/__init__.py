"""Sweeps as background jobs, and their panel on the Run screen."""
