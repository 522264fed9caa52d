"""Simulate the data loss of a fleet of arrays over years, from measured rebuilds and published drive lifetimes."""
