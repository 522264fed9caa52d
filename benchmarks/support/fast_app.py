"""The real app with a clock that runs faster: it looks, and shows what it saw, as often in minutes as else in hours."""

from __future__ import annotations

import sys
from pathlib import Path

import tui.app
from tui.client.client import HERTZ, LabClient
from tui.messages import LabLooked, LabMessage

EVERY = 50


def main() -> None:
    """Arguments: looks a second, and the file that tells how many looks and shows there were."""
    hertz, file = float(sys.argv[1]), Path(sys.argv[2])
    # As many shows for each look as at the usual pace.
    tui.app.SHOW_SECONDS *= HERTZ / hertz
    app = tui.app.RaidlabApp("uml:", make_client=lambda post: LabClient("uml:", post, hertz=hertz))
    counts = {"looks": 0, "shows": 0}
    show, hear = app.show_now, app.hear

    def shown() -> None:
        counts["shows"] += 1
        show()

    def heard(message: LabMessage) -> None:
        hear(message)
        counts["looks"] += isinstance(message, LabLooked)
        if isinstance(message, LabLooked) and counts["looks"] % EVERY == 0:
            file.write_text(f"{counts['looks']} {counts['shows']}", encoding="ascii")

    app.show_now = shown  # type: ignore[method-assign]
    app.hear = heard  # type: ignore[method-assign]
    try:
        app.run()
    finally:
        app.client.close()


if __name__ == "__main__":
    main()
