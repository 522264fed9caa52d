"""What a fleet of arrays loses over years: the Fleet screen."""
