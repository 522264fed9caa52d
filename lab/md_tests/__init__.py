"""Runs mdadm's own test suite in the embedded kernel, and separates new failures from those that are known upstream."""
