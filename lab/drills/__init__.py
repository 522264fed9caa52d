"""Disaster drills: broken arrays that a student repairs with the tools of an administrator, and a verdict on the data."""
