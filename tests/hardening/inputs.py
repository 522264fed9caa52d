"""Hostile inputs: random command lines from the tree of commands, and damaged files."""

from __future__ import annotations

import gzip
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.classroom.bundle import load_signer, write_bundle
from lab.cli.app import make_app
from lab.experiments import schema as experiments
from lab.results.record import encode_record
from lab.workloads import workload as workloads
from tests.changed import change_tree
from tests.hardening.test_stored import EVIL, RAW, measured
from tests.unit.classroom.students import CAPTURES

# Option or argument, then valid values. Files are in the current folder; arrays and disks are those of a fake lab.
_FITTING = """
name md0 md1 ad0 disk01 latest 20261121 antioquia-quick my-drive
disk disk01 disk02 disk05
old disk01
new disk04
level raid0 raid1 raid4 raid5 raid6 raid10 5 adapt5 shr
disks 2 3 4 5 disk01,disk02,disk03 disk01,disk02,disk03,disk04
spares 0 1 disk05
journal disk05
chunk 4K 64K 512K 1M
layout left-symmetric f2 n2 near
bitmap none internal
bitmap-chunk 64K 64M
policy resync ppl journal
fs raw ext4 xfs
members 4 5 disk04
size max 64M 500M
sizes 1T,2T,3T 500M
length 4K 64K
count 1 2
reference 1 2 3
utilisation 1,1,0.5
kind file spindle loop ram physical internal none
model hdd-7200 hdd-10k
workload rand-read-4k seq-write-1m file.toml
array md0 disk01
runtime 1 0.5
action check repair stop
names latest 20261121 disk01 . b folder
source file.zip folder
file out.zip out.html raw/0001.json.gz
shell bash zsh fish
format html markdown csv text
output out.html out.md out.csv out.txt
to out.zip outside
explain too-few-repeats
seed 1 7
min 10M 1000
max 200M
language de en
word 1 2 check
"""
FITTING = {line.split()[0]: tuple(line.split()[1:]) for line in _FITTING.strip().splitlines()}
HOSTILE = (
    *("", " ", "-", "--", "---", "-x", "-1", "65", "9" * 19, "9" * 20, "9" * 5000, "1e400", "1e-300", "nan", "-inf"),
    *("0x10", "1_000", "٣", "½", "9999999T", "-5M", "1 K", "0B", "513", "md999", "md1000", "md-1", "disk01,disk01"),
    *("disk99", "," * 1000, "1,nan", "..", "../../x", "/", "/nowhere/x", "missing.toml", "1-", "a" * 300),
    *("a" * 100_000, "x/" * 2500, "é", "日本", EVIL, "\n", "\t", "\udcff", "\ufeff", "%s%n", "{}", "$(id)", "`id`"),
    *("'; id #", "[bold]"),
    *("<script>", "=1+1", "--help", "--json", "--plan", "--on", "uml:?mem=1K", "uml:?name=../x", "bogus:", "ssh:"),
)
VALUES = (
    *("0", "-1", "1", "7", "9" * 19, "9" * 20, "9" * 5000, "1.5", "1e-300", "1e308", "inf", "nan", "-inf", "true"),
    *('""', '"x"', "[]", "{}", "[[]]", '"9999999T"', '"-1"', '"\\u001b[31m"', '"' + "a" * 100_000 + '"', "'''\n\n'''"),
    *("1979-05-27", "0x7f", '"../../x"', '"psync\\nexec_prerun=id"'),
)
_NEVER = ("serve",)
"""It runs until it is stopped; test_process.py tests it."""
_LONG = "--prove"
"""It takes minutes: it tries every step of every lesson or drill."""
_ALWAYS = {"run": ("--plan",), "watch": ("--count", "1")}


@dataclass(frozen=True, slots=True)
class Case:
    """One input. Files are made in the current folder; those below ``state/`` are the lab's."""

    words: tuple[str, ...]
    files: Mapping[str, bytes]

    def written(self) -> str:
        return json.dumps([self.words, {name: data.hex() for name, data in self.files.items()}])


def read_case(text: str) -> Case:
    words, files = json.loads(text)
    return Case(tuple(words), {name: bytes.fromhex(data) for name, data in files.items()})


@dataclass(frozen=True, slots=True)
class _Argument:
    names: tuple[str, ...]
    is_flag: bool
    is_required: bool


@cache
def commands() -> tuple[tuple[tuple[str, ...], tuple[_Argument, ...]], ...]:
    return tuple(_commands(make_app(), ()))


def _commands(app: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[_Argument, ...]]]:
    if app.default_command is not None:
        found = app.assemble_argument_collection()
        yield (
            path,
            tuple(
                _Argument(each.names, "bool" in str(each.hint), bool(each.required))
                for each in found
                if _LONG not in each.names
            ),
        )
    for name in app:
        if not name.startswith("-") and name not in _NEVER:
            yield from _commands(app[name], (*path, name))


def _word(draw: random.Random, argument: str) -> str:
    fitting = FITTING.get(argument.strip("-").lower(), ("md0", "disk01", "latest", "1"))
    return draw.choice(fitting if draw.random() < 0.85 else HOSTILE)


def command_line(draw: random.Random) -> Case:
    """A command with most of its required arguments, some optional ones, and sometimes a wrong one."""
    path, arguments = draw.choice(commands())
    words: list[str] = []
    for each in arguments:
        if draw.random() > (0.97 if each.is_required else 0.3):
            continue
        name = draw.choice(each.names)
        if each.is_flag:
            words.append(name)
        elif name.startswith("-") and draw.random() < 0.9:
            words += draw.choice(([name, _word(draw, name)], [f"{name}={_word(draw, name)}"]))
        else:
            words += [_word(draw, name) for _ in range(draw.choice((1, 1, 2)))]
    if draw.random() < 0.1:
        words.insert(draw.randrange(len(words) + 1), draw.choice(HOSTILE))
    if draw.random() < 0.1:
        draw.shuffle(words)
    start = draw.choice(((), (), ("--json",), ("--quiet",), ("--on", "uml:"), ("--on", "local:")))
    start = ("--on", draw.choice(HOSTILE)) if draw.random() < 0.05 else start
    files = {"file.toml": b"", "file.zip": b"PK", "file.json": b"{}", "file.fio": b"[x]\n", "folder/x": b""}
    files["state/results/20261121T100000Z-x/record.json"] = encode_record(measured())
    return Case((*start, *path, *_ALWAYS.get(path[0], ()), *words), files)


def toml_file(draw: random.Random) -> Case:
    folder = draw.choice((experiments.BUILT_IN_FOLDER, workloads.BUILT_IN_FOLDER))
    lines = draw.choice(_texts(folder)).splitlines()
    for _ in range(draw.choice((1, 1, 2, 5))):
        place = draw.randrange(len(lines))
        line = lines[place]
        match draw.randrange(7):
            case 0:
                del lines[place]
                lines = lines or [""]
            case 1:
                lines.insert(draw.randrange(len(lines)), line)
            case 2 if "=" in line:
                lines[place] = f"{line.partition('=')[0]}= {draw.choice(VALUES)}"
            case 3:
                lines[place] = line[: draw.randrange(len(line) + 1)]
            case 4:
                lines[place] = f"{draw.choice(('x', 'id', 'recipe', 'a.b.c', 'engine'))} = {draw.choice(VALUES)}"
            case 5:
                lines[place] = re.sub(r"\d+", lambda _: draw.choice(VALUES[:9]), line)
            case _:
                lines[place] = line.replace(
                    draw.choice("=[]\"' "), draw.choice(("", "\x00", "\x1b", '"', "[[", "\ud7ff"))
                )
    lines_of = {experiments.BUILT_IN_FOLDER: ("run --plan w.toml", "lint w.toml", "--json run w.toml --plan")}
    words = draw.choice(lines_of.get(folder, ("load w.toml disk01", "load w.toml disk01 --runtime 1"))).split()
    return Case(tuple(words), {"w.toml": "\n".join(lines).encode("utf-8", "surrogatepass")})


@cache
def _texts(folder: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.toml"))]


def _damaged(draw: random.Random, data: bytes) -> bytes:
    """Change, insert or remove some bytes, or replace a number or a word."""
    for _ in range(draw.choice((0, 1, 1, 3))):
        place = draw.randrange(len(data) + 1)
        match draw.randrange(6):
            case 0:
                data = data[:place]
            case 1:
                data = data[:place] + draw.randbytes(draw.choice((1, 4, 1000))) + data[place + 1 :]
            case 2:
                data = data[:place] + data[place + draw.randrange(1, 50) :]
            case 3:
                data = data[:place] + data
            case _:
                spots = list(re.finditer(rb"(?<=: )(-?[0-9.]+|\"[^\"]*\")", data))
                value = draw.choice((*VALUES[:14], "null", '"\\u001b[2J"')).encode()
                if spots:
                    spot = draw.choice(spots)
                    data = data[: spot.start()] + value + data[spot.end() :]
    return data


def _changed(draw: random.Random, data: bytes) -> bytes:
    tree = json.loads(data)
    for _ in range(draw.randint(1, 3)):
        change_tree(tree, draw)
    return json.dumps(tree).encode("utf-8", "surrogatepass")


_READING = (
    *("results", "results show", "results show --csv", "results path", "results delete zzz"),
    *(f"results raw latest {RAW}", "--json results", "--json results show"),
    *("report", "report --format markdown", "report --format csv"),
    *("report -o out.html", "compare latest", "compare zzz latest", "lint latest", "export latest --to out.zip"),
)


def stored_result(draw: random.Random) -> Case:
    record = encode_record(measured("zzz", has_raw=True))
    if draw.random() < 0.5:
        record = _changed(draw, record)
    name = draw.choice(("record.json", "draft.json", "record.json"))
    files = {
        f"state/results/zzz/{name}": _damaged(draw, record),
        f"state/results/zzz/{RAW}": _damaged(draw, gzip.compress(b'{"jobs": []}')),
        "state/results/20261121T100000Z-x/record.json": encode_record(measured()),
    }
    if name == "draft.json":
        files["state/results/zzz/cells.jsonl"] = _damaged(draw, b'{"cell": {"array": "a"}}\n' * 3)
    return Case(tuple(draw.choice(_READING).split()), files)


_OUTCOME = CAPTURES["create-over"]
_PRACTICE = (
    *(f"drills/{json.loads(_OUTCOME)['id']}.json", "drills/x.json", "drills/../x.json"),
    *("lessons/02-striping.json", "lessons/x\x1b.json", "lessons/desk.json"),
)


def bundle(draw: random.Random) -> Case:
    name = draw.choice(("zzz", "../x", "latest", "x" * 300, ".x", "x\x1b[31m"))
    record = draw.choice((_changed, _damaged))(draw, encode_record(measured(name, has_raw=True)))
    raw = draw.choice((RAW, "raw/../../x", "/etc/x", RAW, RAW))
    contents = {"record.json": record, raw: _damaged(draw, gzip.compress(b'{"jobs": []}'))}
    practice = {draw.choice(_PRACTICE): _damaged(draw, _OUTCOME)} if draw.random() < 0.5 else {}
    data = write_bundle({name: contents}, load_signer(_key()), practice)
    if draw.random() < 0.6:
        data = _damaged(draw, data)
    lines = (
        *("results import b/b.zip", "results import b", "--json results import b/b.zip", "lint b/b.zip", "class b"),
        *("report b/b.zip", "report b/", "compare b/b.zip b/good.zip", "compare b/"),
    )
    good = write_bundle({"good": {"record.json": encode_record(measured("good"))}}, load_signer(_key()))
    return Case(tuple(draw.choice(lines).split()), {"b/b.zip": data, "b/good.zip": good})


_KEYS: list[Path] = []


def _key() -> Path:
    """The path of a key that is created once in each process."""
    if not _KEYS:
        _KEYS.append(Path(tempfile.mkdtemp(prefix="raidlab-key-")) / "signing-key.pem")
    return _KEYS[0]


KINDS: Mapping[str, Callable[[random.Random], Case]] = {
    "command line": command_line,
    "TOML file": toml_file,
    "stored result": stored_result,
    "bundle": bundle,
}


def case(seed: int, number: int) -> tuple[str, Case]:
    """Return the kind and the input of this number; the same for the same seed."""
    draw = random.Random(f"{seed}/{number}")
    kind = draw.choices(tuple(KINDS), weights=(5, 2, 2, 1))[0]
    return kind, KINDS[kind](draw)
