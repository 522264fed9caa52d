"""``make architecture``: the picture of the packages in docs/architecture.md, drawn from the imports.

An arrow that follows from others (a uses b, b uses c: a may use c) is left out, which leaves as few as there can be.
"""

from __future__ import annotations

import re
from pathlib import Path

import grimp

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "architecture.md"
BEGIN, END = "<!-- packages: begin -->\n", "<!-- packages: end -->\n"


def uses() -> dict[str, set[str]]:
    """What each package of ``lab`` imports directly, and the app, which is one here."""
    graph = grimp.build_graph("lab", "tui", cache_dir=None)
    packages = {*graph.find_children("lab"), "tui"}
    for package in packages:
        graph.squash_module(package)
    return {package: packages & graph.find_modules_directly_imported_by(package) - {package} for package in packages}


def reduced(uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same without what follows from the rest."""

    def reached(package: str) -> set[str]:
        return uses[package].union(*(reached(each) for each in uses[package]))

    return {package: used.difference(*(reached(each) for each in used)) for package, used in uses.items()}


def mermaid(uses: dict[str, set[str]]) -> str:
    """The picture as text that GitHub and editors draw."""
    lines = [f"  {package} --> {used}" for package in sorted(uses) for used in sorted(uses[package])]
    return "\n".join(("```mermaid", "flowchart TD", *lines, "```", ""))


def drawn(page: str) -> str:
    """The page with the picture as it must be."""
    picture = mermaid(reduced(uses()))
    return re.sub(f"{BEGIN}.*{END}", lambda _: BEGIN + picture + END, page, flags=re.DOTALL)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
