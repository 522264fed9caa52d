"""Disaster drills: real arrays in trouble, the tools of an administrator, and a verdict on the data that were saved."""
