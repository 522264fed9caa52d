"""The packages that are fetched from this computer's sources, and the error if no source can be reached."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from lab.errors import LabError
from lab.host.processes import Completed
from lab.machine.package_sources import Apt
from lab.machine.stock_kernels import packaged_kernels


def test_only_ordinary_kernels_are_fetched() -> None:
    ordinary = ["6.1.0-18-amd64", "6.12.30+bpo-arm64", "6.8.0-31-generic"]
    others = [
        *("6.8.0-1044-azure", "6.8.0-31-lowlatency", "6.8.0-31-generic-64k", "6.12.30+deb13-arm64-16k"),
        *("6.1.0-18-rt-amd64", "6.1.0-18-cloud-amd64", "6.1.0-18-amd64-unsigned", "6.1.0-18-amd64-dbg", "6.1-amd64"),
        "amd64",
    ]
    output = "".join(f"linux-image-{name} - Linux kernel image\n" for name in (*others, *ordinary))
    assert packaged_kernels().versions(Mock(run=lambda *_: Completed(0, output, ""))) == ordinary


def apt_that_fetched(*lists: Path) -> Mock:
    """An apt-get that behaves like version 2.6.1: it fetches these lists and cannot reach one source."""
    lost = "W: Failed to fetch http://a/dists/x/InRelease  Could not resolve 'a'\n"
    answer = Completed(0, "", f"{lost}W: Some index files failed to download. They have been ignored, or ...\n")

    def run(*_: object, **__: object) -> Completed:
        for path in lists:
            path.touch()
        return answer

    return Mock(run=run)


def test_a_network_that_is_down_is_named(tmp_path: Path) -> None:
    lock, release = tmp_path / "lists/lock", tmp_path / "lists/b_dists_x_InRelease"
    sources = "deb http://a x main\ndeb http://b x main\n"
    with pytest.raises(LabError, match=r"can be reached: .*Could not resolve 'a'.*\n.*can reach its package sources"):
        Apt(apt_that_fetched(lock), tmp_path, sources).update()
    # It is no error if one of several sources is reached, or if there are no sources.
    for each, there in ((sources, (lock, release)), ("", (lock,))):
        (folder := tmp_path / f"work{len(there)}").mkdir()
        Apt(apt_that_fetched(*(folder / path.relative_to(tmp_path) for path in there)), folder, each).update()
