"""The real app with a clock that runs faster: it looks, and shows what it saw, as often in minutes as else in hours."""

from __future__ import annotations

import sys
from pathlib import Path

import tui.app
from tui.client import HERTZ, LabClient
from tui.state import LabLooked, LabMessage

EVERY = 50


class Looks:
    """Counts looks and shows, and writes both down every EVERY looks."""

    def __init__(self, file: Path) -> None:
        self.looks = self.shows = 0
        self._file = file

    def hear(self, message: LabMessage) -> None:
        self.looks += isinstance(message, LabLooked)
        if isinstance(message, LabLooked) and self.looks % EVERY == 0:
            self._file.write_text(f"{self.looks} {self.shows}", encoding="ascii")


def main() -> None:
    """Arguments: looks a second, and the file that tells how many looks and shows there were."""
    hertz, file = float(sys.argv[1]), Path(sys.argv[2])
    # As many shows for each look as at the usual pace.
    tui.app.SHOW_SECONDS *= HERTZ / hertz
    app = tui.app.RaidlabApp("uml:", make_client=lambda post: LabClient("uml:", post, hertz=hertz))
    counts = Looks(file)
    app.services += (counts,)
    show = app.show_now

    def shown() -> None:
        counts.shows += 1
        show()

    app.show_now = shown  # type: ignore[method-assign]
    try:
        app.run()
    finally:
        app.client.close()


if __name__ == "__main__":
    main()
