"""Adds to an OCI image layout the file that older versions of Docker look for instead, manifest.json.

Usage: docker_manifest.py LAYOUT. The layout holds one image. Docker itself writes such a file beside the layout (docker
save, since version 25), and only reads the layout where its images are containerd's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Write the file."""
    layout = Path(sys.argv[1])
    (image,) = json.loads((layout / "index.json").read_text("utf-8"))["manifests"]
    manifest = json.loads((layout / blob(image)).read_text("utf-8"))
    entry = {
        "Config": blob(manifest["config"]),
        "RepoTags": [image["annotations"]["org.opencontainers.image.ref.name"]],
        "Layers": [blob(layer) for layer in manifest["layers"]],
    }
    (layout / "manifest.json").write_text(json.dumps([entry]), "utf-8")


def blob(descriptor: dict[str, Any]) -> str:
    """The path of what a descriptor names, in the layout."""
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


if __name__ == "__main__":
    main()
