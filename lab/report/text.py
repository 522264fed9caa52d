"""A stored result as text for people."""

from __future__ import annotations

from lab.report.tables import cautions, foremost, heading, tables_of
from lab.results.record import ResultRecord


def render_result(record: ResultRecord) -> str:
    """Heading, tables, and what to be careful about."""
    parts = [heading(record), *_first(record), *(table.as_text() for table in tables_of(record))]
    stamps = cautions(record)
    if stamps:
        parts.append("\n".join(("Be careful:", *(f"  {stamp}" for stamp in stamps))))
    return "\n\n".join(parts)


def render_markdown(record: ResultRecord) -> str:
    """The same for a document."""
    parts = [heading(record), *_first(record), *(table.as_markdown() for table in tables_of(record))]
    stamps = cautions(record)
    if stamps:
        parts.append("\n".join(("Be careful:", "", *(f"- {stamp}" for stamp in stamps))))
    return "\n\n".join(parts)


def _first(record: ResultRecord) -> tuple[str, ...]:
    said = foremost(record)
    return (f"First of all: {said}",) if said else ()
