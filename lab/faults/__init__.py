"""The fault lab: faults end in a verdict on the data, crash points are replayed, and planted bugs of md are detected.
"""
