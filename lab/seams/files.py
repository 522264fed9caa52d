"""The only module of the client that reads this computer's own /proc, /sys and /etc.

Files of a *machine* are read through its agent, never here; this seam serves the doctor and the start of embedded
kernels.
"""

from __future__ import annotations

from pathlib import Path


class HostFiles:
    """Small text files below ``root`` (a test passes a temporary folder)."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def path(self, name: str) -> Path:
        return self._root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """The file's text, or None if it is missing or may not be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def exists(self, name: str) -> bool:
        return self.path(name).exists()
