"""What plugins add to the report of a study, by words. ``lab.report.extension`` has the same with types."""

from __future__ import annotations

from typing import Any

from lab.plugins import plugins


def added(place: str) -> Any:
    """For ``tables of STUDY`` and ``plots of STUDY`` the function that makes them; None if no plugin does."""
    what, _, study = place.partition(" of ")
    additions = (each for plugin in plugins() for each in plugin.extensions)
    reports = (each for each in additions if study and getattr(each, "study", "") == study)
    return next((getattr(each, what) for each in reports), None)
