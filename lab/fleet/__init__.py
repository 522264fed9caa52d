"""What a fleet of arrays loses over years, by Monte Carlo, from measured rebuilds and published lives of drives."""
