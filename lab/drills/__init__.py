"""Disaster drills: broken arrays to repair with the tools of an administrator, with a verdict on the data."""
