"""All promises, in the order in which they are told."""

from tests.hardening import disks, process, stored, written  # noqa: F401 - each puts its own on the list
from tests.hardening.workbench import PROMISES as ALL

__all__ = ["ALL"]
