"""Data loss of a fleet of arrays over years: Monte Carlo from measured rebuilds and published drive lifetimes."""
