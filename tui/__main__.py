"""``python -I -m tui [TARGET]`` runs the app, for programs that create a terminal for it."""

from __future__ import annotations

import sys

from lab.host import signals
from tui.app import main


def run() -> int:
    """Run the app and return its exit status. Signals end it cleanly, the way they end ``raidlab``."""
    signals.install()
    try:
        return main(sys.argv[1] if len(sys.argv) > 1 else None)
    except signals.Interrupted as interrupted:
        return interrupted.exit_status


if __name__ == "__main__":
    sys.exit(run())
