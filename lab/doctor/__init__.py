"""The doctor: checks this computer and a machine, and reports missing parts with the command to fix each."""

from lab.doctor.checks import check_computer
from lab.doctor.machine import check_machine
from lab.doctor.report import Check, DoctorReport, Outcome, Subject, report_schema

__all__ = [
    "Check",
    "DoctorReport",
    "Outcome",
    "Subject",
    "check_computer",
    "check_machine",
    "report_schema",
]
