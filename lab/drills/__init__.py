"""Disaster drills: broken arrays to repair with an administrator's tools, with a verdict on the data."""
