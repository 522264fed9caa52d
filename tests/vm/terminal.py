"""A student's terminal: a program on a pseudo-terminal, what it shows, and keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.window import Window

ROWS, COLUMNS = 36, 120
# Operating-system commands, control sequences, and the short ones that choose a character set.
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")


class Terminal(Window):
    """What has been shown since the last keys is ``seen``, with the signs that place and colour it taken out."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__(argv, columns=COLUMNS, rows=ROWS, environment=environment)
        self._read_from = 0

    @property
    def seen(self) -> str:
        return _ESCAPES.sub(b"", self.output[self._read_from :]).decode("utf-8", "replace")

    def wait_for(self, *words: str, seconds: float = 120) -> None:
        """Until all of these have been shown since the last keys; fails the test with what was shown instead."""
        self.until(lambda: all(word in self.seen for word in words), " and ".join(words), seconds)

    def send(self, keys: str) -> None:
        self._read_from = len(self.output)
        self.type(keys)
