"""The real app with a faster clock. In minutes, it takes and shows as many snapshots as the usual app in hours."""

from __future__ import annotations

import sys
from pathlib import Path

import tui.app
import tui.base_app
from tui.client import HERTZ, LabClient
from tui.state import LabMessage, SnapshotTaken

EVERY = 50


class Counts:
    """Counts snapshots and screen updates, and writes both numbers to the file after every EVERY snapshots."""

    def __init__(self, file: Path) -> None:
        self.snapshots = self.shows = 0
        self._file = file

    def receive(self, message: LabMessage) -> None:
        self.snapshots += isinstance(message, SnapshotTaken)
        if isinstance(message, SnapshotTaken) and self.snapshots % EVERY == 0:
            self._file.write_text(f"{self.snapshots} {self.shows}", encoding="ascii")


def main() -> None:
    """Run the app. The arguments are the snapshots per second, and the file for the two numbers (see Counts)."""
    hertz, file = float(sys.argv[1]), Path(sys.argv[2])
    # The number of screen updates for each snapshot is the same as at the usual pace.
    tui.base_app.SHOW_SECONDS *= HERTZ / hertz
    app = tui.app.RaidlabApp("uml:", make_client=lambda post: LabClient("uml:", post, hertz=hertz))
    counts = Counts(file)
    app.receivers += (counts.receive,)
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
