"""Guided lessons as data: steps to read, predict, do, check on real state and understand."""
