"""The table under the name by which ``lab.fault_lab`` imports it; it is that of ``lab.tables``."""

from lab.tables import Column, Table, as_csv

__all__ = ["Column", "Table", "as_csv"]
