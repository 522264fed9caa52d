"""Lab disks, the only devices to which the lab may write."""

from lab.disks.kinds import DiskKind, DiskSpec, LabDisk, specs
from lab.disks.lab import Lab, Opener, open_lab, with_fitting_time

__all__ = ["DiskKind", "DiskSpec", "Lab", "LabDisk", "Opener", "open_lab", "specs", "with_fitting_time"]
