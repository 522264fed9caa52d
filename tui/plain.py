"""Support for terminals that display only ASCII: how they are detected, and how other characters are replaced."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import IO

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

ASCII_VARIABLE = "RAIDLAB_ASCII"
_TERMINALS = ("linux", "dumb", "vt100", "vt220")
_SIGNS = {
    "│": "|", "┃": "|", "┊": ":", "║": "|", "▏": "|", "▎": "|", "▍": "|", "▌": "|", "▐": "|", "▕": "|", "▊": "|",
    "─": "-", "━": "-", "═": "=", "▔": "-", "▁": "_", "▂": "_", "▄": "=", "▀": "=", "█": "#", "▉": "#", "▋": "#",
    "░": ".", "▒": ":", "▓": "#", "•": "*", "●": "*", "○": "o", "▶": ">", "▼": "v", "▲": "^", "◀": "<", "✓": "v",
    "✔": "v", "✘": "x", "…": "~", "–": "-", "—": "-", "×": "x", "·": ".", "→": ">", "←": "<", "↑": "^", "↓": "v",
    "“": '"', "”": '"', "‘": "'", "’": "'", "⏎": "J", "␣": "_", "µ": "u",
}  # fmt: skip
KEY_WORDS = {"⏎": "enter", "↑": "up", "↓": "down", "←": "left", "→": "right", "⌫": "backspace"}
"""Textual's symbols for keys -> words. The ASCII replacement of the Enter symbol would look like another key."""


def needs_ascii(environ: Mapping[str, str], output: IO[str] | None) -> bool:
    """Whether to draw with ASCII: by ``ASCII_VARIABLE``, for an encoding without Unicode, or for these terminals."""
    if environ.get(ASCII_VARIABLE, "") not in ("", "0"):
        return True
    encoding = (getattr(output, "encoding", None) or "utf-8").lower()
    return not encoding.startswith("utf") or environ.get("TERM", "") in _TERMINALS


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """The text with the nearest ASCII character for each character; its width in cells is unchanged."""
    if text.isascii():
        return text
    return "".join(character if character.isascii() else _nearest(character) for character in text)


def _nearest(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    if "\u2500" <= character <= "\u257f":  # corners and crossings of boxes
        return "+"
    plain = unicodedata.normalize("NFKD", character)[:1]
    width = cell_len(character)
    return (plain if plain.isascii() and plain.isprintable() else "?") + " " * (width - 1) if width else ""


class AsciiFilter(LineFilter):
    """Replaces characters in everything that is drawn, so that no widget has to do it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]
