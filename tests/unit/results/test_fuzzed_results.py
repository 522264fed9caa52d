"""Results and bundles changed at random: every command answers or refuses, and none comes to what should not happen."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lab.classroom.bundle import load_signer, write_bundle
from lab.cli.main import run
from lab.experiments.schema import find_experiment
from lab.results.record import encode_record
from tests.unit.compare.platform_records import HDD, machine

STUDY = find_experiment("antioquia-quick")[1]
WHOLE: dict[str, Any] = msgspec.to_builtins(
    msgspec.structs.replace(machine("a", HDD, HDD, repeats=3), experiment_toml=STUDY)
)
NUMBERS: tuple[Any, ...] = (0, 1, -1, 2, 999, 10**15, -(10**15), 2**63 - 1, 1e15, 5e-324, 1e-12, 1e-9, 0.5, -0.0, 1e308)
WORDS = (
    *("", "latest", "../../x", "\x1b[2J", "[bold]x[/]", "[/x]", "<b>", "=1+1", "a|b", "x" * 299, "x" * 301, "\u202e"),
    *("é", "{{x}}", "read", "rebuilding", "single", "raid5", "raid0-3", "%(x)s", "\x00", "2099-01-01", "\n\n# x"),
    "rw=read\n",
)
ANYTHING = (*NUMBERS, *WORDS, None, True, [], {}, [None], [[]], {"a": 1}, -(2**63), 10**400)


def changed(seed: int) -> bytes:
    """The record with one to three of its values, or bytes, replaced, removed or doubled."""
    draw = random.Random(seed)
    tree = copy.deepcopy(WHOLE)
    for _ in range(draw.randint(1, 3)):
        change_tree(tree, draw)
    data = bytearray(msgspec.json.encode(tree))
    if draw.random() < 0.1:
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        del data[draw.randrange(len(data)) :][: draw.choice((0, 0, 1, 1000))]
    return bytes(data)


def change_tree(tree: Any, draw: random.Random) -> None:
    """Somewhere below ``tree``, in a value of its own or in the same field of every cell."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(tree[key], dict | list) and tree[key] and draw.random() < 0.9:
            tree = tree[key]
            continue
        how = draw.random()
        if how < 0.1:
            del tree[key]
        elif how < 0.2 and isinstance(tree, list):
            tree.append(copy.deepcopy(tree[key]))
        else:
            # Most of them of the same kind, or hardly a record would get past its decoding.
            kinds = {str: WORDS, int: NUMBERS, float: NUMBERS}
            tree[key] = draw.choice(kinds.get(type(tree[key]), ANYTHING) if draw.random() < 0.9 else ANYTHING)
        return


def commands(folder: Path, seed: int) -> list[list[str]]:
    """Those that read results; an HTML report, which takes longest, of every fourth."""
    one = WHOLE["id"]
    said = [
        ["results"],
        ["results", "show", one],
        ["--json", "results", "show", one],
        ["results", "show", one, "--csv"],
        ["results", "show", one, "--markdown"],
        ["report", one, "good", "-o", str(folder / "r.md")],
        ["report", str(folder / "state" / "results"), "--format", "csv"],
        ["compare", "good", one, "--allow", "all"],
        ["compare", "--platforms", "good", str(folder / "bundles")],
        ["lint", one],
        ["results", "import", str(folder / "bundles" / "x.zip")],
        ["class", str(folder / "bundles")],
        ["export", one, "--to", str(folder / "out.zip")],
        ["export", one, "--fio-plot", "--to", str(folder / "plots")],
    ]
    if seed % 4 == 0:
        said.append(["report", one, "good", str(folder / "bundles"), "-o", str(folder / "r.html")])
    return said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with one good result, and a folder for bundles."""
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    good = msgspec.structs.replace(machine("b", HDD, HDD, repeats=3, seed=1), id="good")
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "bundles").mkdir()
    _put(tmp_path, "good", encode_record(good))
    return tmp_path


def _put(folder: Path, record_id: str, data: bytes) -> None:
    place = folder / "state" / "results" / record_id
    place.mkdir(parents=True, exist_ok=True)
    (place / "record.json").write_bytes(data)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
@example(0)
def test_every_command_answers_or_refuses(folder: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    data = changed(seed)
    _put(folder, WHOLE["id"], data)
    signer = load_signer(folder / "key.pem")
    (folder / "bundles" / "x.zip").write_bytes(write_bundle({WHOLE["id"]: {"record.json": data}}, signer))
    for words in commands(folder, seed):
        status = run(words)
        said = capsys.readouterr()
        assert status in range(5), words
        assert "should not happen" not in said.err, (words, said.err)
        assert "Traceback" not in said.err, (words, said.err)
        assert not set(said.out + said.err) & {"\x1b", "\x9b", "\u202e"}, words
