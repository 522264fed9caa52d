"""Draw random sentences of raidlab's English for a reader to judge.

``python -m tests.english [COUNT] [SEED]`` prints COUNT sentences with their places: a third from docs and the texts of
lessons, drills and scenarios, a third from docstrings, and a third from messages and hints.
"""

from __future__ import annotations

import ast
import random
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
MODULES = sorted(path for package in ("lab", "tui") for path in (REPOSITORY / package).rglob("*.py"))
FEWEST_WORDS = 5
CODE_KEYS = frozenset({"run", "arrive", "line", "commands", "fio_job", "recipe", "measure", "command", "text"})
"""Keys of TOML files whose values are not English."""
NOT_MESSAGES = frozenset({"Table", "Column"})
"""Classes whose first argument is a heading."""
_BEGIN = r"(?=[A-Z0-9`*\"'({]|(?:md|mdadm|raidlab|fio|ext4|btrfs)\b)"
_END = re.compile(rf"(?<=[.!?])\s+{_BEGIN}|(?<=[.!?][*)\"'])\s+{_BEGIN}|(?<=[.!?]\*\*)\s+{_BEGIN}")
_WHOLE = re.compile(rf"{_BEGIN}.*[.!?:][*)\"'`]*$", re.DOTALL)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ")

Place = tuple[str, str]
"""A place and its sentence."""


def sentences(text: str) -> Iterator[str]:
    """Yield the complete sentences of a Markdown text, without code, tables, headings and unfinished phrases."""
    lines = []
    for line in _FENCED.sub("\n", text).splitlines():
        if line.startswith(("|", "#", "<", "!", "    ")):
            lines.append("")
        else:
            lines += ["", _ITEM.sub("", line)] if _ITEM.match(line) else [line.removeprefix("> ")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        for each in _END.split(paragraph):
            words = each.split()
            if len(words) >= FEWEST_WORDS and _WHOLE.match(" ".join(words)):
                yield " ".join(words)


def of_docs() -> Iterator[Place]:
    for path in sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")]):
        for sentence in sentences(path.read_text(encoding="utf-8")):
            yield path.relative_to(REPOSITORY).as_posix(), sentence
    for path in sorted((REPOSITORY / "lab").rglob("*.toml")):
        if not path.name.endswith((".es.toml", ".sv.toml")) and path.stem not in ("es", "sv"):
            for text in _texts(tomllib.loads(path.read_text(encoding="utf-8"))):
                for sentence in sentences(text):
                    yield path.relative_to(REPOSITORY).as_posix(), sentence


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key not in CODE_KEYS:
                yield from _texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _texts(value)


def of_docstrings() -> Iterator[Place]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                for sentence in sentences(text):
                    yield f"{path.relative_to(REPOSITORY)}:{getattr(node, 'lineno', 1)}", sentence


def of_messages() -> Iterator[Place]:
    """Yield the texts of errors and their hints. ``…`` stands for an interpolated value."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if isinstance(node, ast.Call) and name[:1].isupper() and name not in NOT_MESSAGES:
                given = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "hint")]
                for text in filter(None, map(_literal, given)):
                    if len(re.findall(r"\w+", text)) >= FEWEST_WORDS:
                        yield f"{path.relative_to(REPOSITORY)}:{node.lineno}", " ".join(text.split())


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(each) if isinstance(each, ast.Constant) else "…" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def main(count: int = 60, seed: str = "") -> None:
    chance = random.Random(seed)
    kinds = [sorted(set(kind())) for kind in (of_docs, of_docstrings, of_messages)]
    drawn = [each for kind in kinds for each in chance.sample(kind, count // len(kinds))]
    for number, (place, sentence) in enumerate(drawn, 1):
        sys.stdout.write(f"{number}. {place}\n   {sentence}\n")


if __name__ == "__main__":
    main(*(int(sys.argv[1:2][0]),) if sys.argv[1:] else (), *sys.argv[2:3])
