"""What is fetched from this computer's package sources, and what is said if they cannot be reached."""

from __future__ import annotations

from typing import cast

from lab.machine.kernel_packages import packaged_kernels
from lab.machine.package_sources import Apt


class FakeApt:
    """Finds these packages."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def run(self, *_words: str) -> str:
        return "".join(f"{name} - Linux kernel image\n" for name in self._names)


def test_only_ordinary_kernels_are_fetched() -> None:
    ordinary = ["6.1.0-18-amd64", "6.12.30+bpo-arm64", "6.8.0-31-generic"]
    others = [
        *("6.8.0-1044-azure", "6.8.0-31-lowlatency", "6.8.0-31-generic-64k", "6.12.30+deb13-arm64-16k"),
        *("6.1.0-18-rt-amd64", "6.1.0-18-cloud-amd64", "6.1.0-18-amd64-unsigned", "6.1.0-18-amd64-dbg", "6.1-amd64"),
        "amd64",
    ]
    apt = FakeApt(*(f"linux-image-{name}" for name in (*others, *ordinary)))
    assert packaged_kernels().versions(cast(Apt, apt)) == ordinary
