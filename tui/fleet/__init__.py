"""The data loss of a fleet of arrays over years: the Fleet screen."""
