"""Drills: the open drill, and the Drills screen."""
