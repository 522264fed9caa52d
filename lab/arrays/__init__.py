"""The arithmetic of levels, array specs, operations as plans, and the state of arrays as sysfs shows it."""
