"""The fault lab: every fault ends in a verdict, every crash point is replayed, and the planted bugs of md are found."""
