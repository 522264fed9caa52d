"""Lab disks: what the lab may write on, and nothing else."""

from lab.disks.kinds import DiskKind, DiskSpec, LabDisk, disk_kind, specs
from lab.disks.lab import Lab, open_lab

__all__ = ["DiskKind", "DiskSpec", "Lab", "LabDisk", "disk_kind", "open_lab", "specs"]
