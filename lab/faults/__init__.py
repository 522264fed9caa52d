"""The fault lab: injects faults, judges the data, replays crash points, and detects planted bugs in md."""
