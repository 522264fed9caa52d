"""Guided lessons as TOML files: each step has instructions, a prediction, checks on the real lab and an explanation."""
