"""All promises, in the order in which they are told."""

from tests.hardening import (  # noqa: F401 - each puts its own on the list
    disks,
    facts,
    guests,
    process,
    stored,
    written,
)
from tests.hardening.workbench import PROMISES as ALL

__all__ = ["ALL"]
