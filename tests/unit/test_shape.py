"""House rules that no linter knows: who waits, opens /proc and /sys and talks, how long a module may be, its names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = sorted(path for package in ("lab", "tui") for path in (REPOSITORY / package).rglob("*.py"))
STAND_ALONE = {"lab/disks/pace_program.py"} | {
    f"lab/machine/{name}.py"
    for name in (
        *("agent", "agent_call", "agent_sample", "agent_terminal"),
        *("confinement", "disk_rescue", "kernel_init", "supervisor"),
    )
}
WAITS = {"lab/host/clock.py"} | STAND_ALONE
OPENS_KERNEL_FILES = {"lab/host/files.py"} | STAND_ALONE
MODULE_LINES = 400
FUNCTION_LINES = 60
QUESTIONS_OF_KIND = 10


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def dotted(node: ast.expr) -> str:
    """``time.sleep`` for the expression time.sleep; empty for anything that is no dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def imported_names(tree: ast.AST, module: str) -> set[str]:
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


def leading_text(node: ast.expr) -> str:
    """The start of a string literal or f-string; empty for anything else."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return leading_text(node.values[0])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every module by its path."""
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8"), filename=str(path)) for path in MODULES}


Trees = dict[str, ast.Module]


def test_a_module_is_short() -> None:
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_a_function_is_short(trees: Trees) -> None:
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []


def test_only_the_clock_waits(trees: Trees) -> None:
    others = {name: tree for name, tree in trees.items() if name not in WAITS}
    assert [name for name, tree in others.items() if "sleep" in imported_names(tree, "time")] == []
    assert called(others, {"time.sleep"}) == []


def test_types_are_decoded_where_threads_may_begin_it(trees: Trees) -> None:
    """See lab.gates.decoding; without a type there is nothing to work out."""
    wrong = [
        f"{name}:{call.lineno} calls {called}"
        for name, tree in trees.items()
        if name != "lab/gates/decoding.py"
        for called, call in calls(tree)
        if called in ("msgspec.convert", "msgspec.json.Decoder", "msgspec.toml.decode")
        or (called == "msgspec.json.decode" and (call.keywords or len(call.args) > 1))
    ]
    assert not wrong, "use lab.gates.decoding: " + ", ".join(wrong)


def test_only_the_command_line_prints_and_exits(trees: Trees) -> None:
    # lab.host.signals ends a process that has nothing to close, lab.sweep.node one of a cluster whose client is gone.
    talkers = (*STAND_ALONE, "lab/cli/", "lab/host/signals", "lab/sweep/node", "tui/__main__")
    others = {name: tree for name, tree in trees.items() if not name.startswith(talkers)}
    assert called(others, {"print", "sys.exit", "exit", "quit", "os._exit"}) == []


def called(trees: Trees, functions: set[str]) -> list[str]:
    return [
        f"{place}:{call.lineno}" for place, tree in trees.items() for name, call in calls(tree) if name in functions
    ]


def test_only_the_host_modules_open_files_of_the_running_kernel(trees: Trees) -> None:
    openers = {"open", "io.open", "os.open", "os.listdir", "os.scandir", "Path", "pathlib.Path"}
    opened = [
        f"{place}:{call.lineno}"
        for place, tree in trees.items()
        for name, call in calls(tree)
        if name in openers and call.args and leading_text(call.args[0]).startswith(("/sys/", "/proc/"))
        if place not in OPENS_KERNEL_FILES
    ]
    assert opened == []


def test_a_public_class_name_stands_for_one_thing(trees: Trees) -> None:
    places = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{name}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def asks_for_a_kind(node: ast.AST) -> bool:
    """Whether an expression or a case asks if an array is a volume or one of md."""
    if isinstance(node, ast.MatchClass):
        return is_kind_of_array(dotted(node.cls))
    if not isinstance(node, ast.Call):
        return False
    asked = dotted(node.func).rpartition(".")[2]
    if asked != "isinstance":
        return asked.startswith("is_volume")
    return any(is_kind_of_array(dotted(each)) for each in ast.walk(node.args[1]) if isinstance(each, ast.expr))


def is_kind_of_array(name: str) -> bool:
    last = name.rpartition(".")[2]
    return "Volume" in last or last in ("ArraySpec", "ArrayStatus", "MdArray")


def test_few_places_ask_what_kind_of_array_they_have(trees: Trees) -> None:
    asked = [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.pattern) and asks_for_a_kind(node)
    ]
    assert len(asked) <= QUESTIONS_OF_KIND, asked
