"""Add the file manifest.json to an OCI image layout, because older versions of Docker require it.

Usage: docker_manifest.py LAYOUT. The layout contains one image. Since version 25, docker save itself writes such a file
in addition to the layout. Docker reads only the layout if containerd stores its images.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Write manifest.json into the layout."""
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
    """Return the path in the layout of the blob to which a descriptor refers."""
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


if __name__ == "__main__":
    main()
