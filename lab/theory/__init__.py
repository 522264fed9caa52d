"""Predicted performance of an array from the performance of its disks."""
