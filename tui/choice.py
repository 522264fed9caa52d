"""One of several things to choose from. A value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a menu."""

    id: str
    label: str
    detail: str = ""
    key: str = ""
    """Chooses it at once; empty: only by the cursor."""
