"""The core of raidlab: real RAID arrays and real workloads, measured so that the figures can be trusted.

No user interface lives here; ``lab.cli`` is the only part that writes to a terminal.
"""

__version__ = "0.1.0"
