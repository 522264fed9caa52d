"""``python -m tui [TARGET]``: the app, for programs that open it in a terminal of their own making."""

from __future__ import annotations

import sys

from tui.app import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
