"""Scenarios, crash points and campaigns: the Faults screen."""
