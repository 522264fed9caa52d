"""The doctor: checks this computer and a machine, and reports missing parts with the command to fix each."""

from lab.doctor.checks import Check, DoctorReport, Outcome, Subject, check_computer, machine_kinds, report_schema
from lab.doctor.machine import check_machine

__all__ = [
    "Check",
    "DoctorReport",
    "Outcome",
    "Subject",
    "check_computer",
    "check_machine",
    "machine_kinds",
    "report_schema",
]
