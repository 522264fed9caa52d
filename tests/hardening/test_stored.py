"""Results of others: their text is displayed and has no other effect."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from lab.results.record import ResultRecord
from tests.hardening.workbench import Bench, expect
from tests.unit.results import records

pytestmark = [pytest.mark.wide, pytest.mark.slow]

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\u2066\r\nraidlab: forged"
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
RAW = "raw/0001.json.gz"


def measured(
    record_id: str = "20261121T100000Z-x", *, word: str = "", has_raw: bool = False, **changes: Any
) -> ResultRecord:
    """A result of two arrays. ``word`` is appended to every free text; ``has_raw``: fio's document is RAW."""
    arrays = (records.array("a", "raid1", 2), records.array("b", "raid5", 3))
    cells = tuple(
        records.cell(array.name, "rand-read-4k", repeat, read_iops=100.0 + 7 * repeat)
        for repeat in (1, 2, 3)
        for array in arrays
    )
    if has_raw:
        cells = (msgspec.structs.replace(cells[0], raw_file=RAW), *cells[1:])
    made = records.record(record_id, arrays=arrays, cells=cells)
    made = msgspec.structs.replace(made, **changes)
    return with_word(made, word) if word else made


def with_word(record: ResultRecord, word: str) -> ResultRecord:
    kept = {
        *("id", "kind", "status", "type", "array", "workload", "phase", "name", "level", "cache", "target", "raw_file"),
    }

    def filled(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: filled(each, key) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [filled(each, name) for each in value]
        return value + word if isinstance(value, str) and name not in kept and not name.endswith("_utc") else value

    return msgspec.convert(filled(msgspec.to_builtins(record)), ResultRecord)


SHOWING = (
    ["results"],
    ["results", "show"],
    ["results", "show", "--markdown"],
    ["results", "show", "--csv"],
    ["report"],
    ["report", "--format", "markdown"],
    ["report", "--format", "csv"],
    ["report", "--format", "html"],
    ["compare", "latest", "latest"],
    ["lint", "latest"],
    ["--json", "results", "show"],
    ["--json", "lint", "latest"],
)


def test_text_of_others_is_shown_and_never_acts_on_a_terminal(bench: Bench) -> None:
    bench.store(measured(word=EVIL))
    for words in SHOWING:
        done = bench.run(*words).is_answer()
        found = ACTING.search(done.said)
        expect(not found, f"{found and found[0]!r} in {done}")
    made = bench.file(f"x{EVIL[:6]}.toml", f'title = "x"\n"{json.dumps(EVIL)[1:-1]}" = 1\n')
    for words in (["run", "--plan", made], ["lint", made], ["lint", EVIL], ["results", "show", EVIL], [EVIL]):
        done = bench.run(*words).was_refused()
        expect(not ACTING.search(done.said), str(done))


def test_text_of_others_is_no_html_in_markdown_and_no_formula_in_csv(bench: Bench) -> None:
    for word in ("<script>alert(1)</script>", "[x](javascript:alert(1))", "<img src=x onerror=y>"):
        bench.store(measured(word=word))
        for words in (["report", "--format", "markdown"], ["results", "show", "--markdown"]):
            done = bench.run(*words).is_answer()
            expect(not re.search(r"<script|<img|(?<!\\)\]\(javascript", done.out), str(done))
    formula = '=HYPERLINK("http://x";"y")'
    named = measured()
    arrays = tuple(msgspec.structs.replace(each, name=formula + each.name) for each in named.arrays)
    cells = tuple(msgspec.structs.replace(each, array=formula + each.array) for each in named.cells)
    bench.store(msgspec.structs.replace(named, arrays=arrays, cells=cells, experiment=formula))
    for words in (["report", "--format", "csv"], ["results", "show", "--csv"]):
        done = bench.run(*words).is_answer()
        expect(not re.search(r'(^|[,;\n])"?[=+@]', done.out), str(done))
