"""Turns the CAPTURE lines of guest logs into one JSON file each: ``extract.py LOG...`` (see README.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

for log in sys.argv[1:]:
    for line in Path(log).read_text(errors="replace").splitlines():
        if line.startswith("CAPTURE "):
            _, label, text = line.split(" ", 2)
            Path(__file__).with_name(f"{label}.json").write_text(json.dumps(json.loads(text), indent=1) + "\n")
