"""House rules that no linter knows: who waits, who opens /proc and /sys, who talks, and how long a module may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = sorted(path for package in ("lab", "tui") for path in (REPOSITORY / package).rglob("*.py"))
STAND_ALONE = {"lab/disks/pace_program.py", "lab/machine/agent.py", "lab/machine/warden.py"}
WAITS = {"lab/seams/clock.py"} | STAND_ALONE
OPENS_KERNEL_FILES = {"lab/seams/files.py", "lab/seams/processes.py"} | STAND_ALONE
MODULE_LINES = 500
FUNCTION_LINES = 60


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


@pytest.fixture(scope="module", params=MODULES, ids=name_of)
def module(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"), filename=str(module))


def test_a_module_is_short(module: Path) -> None:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines <= MODULE_LINES, f"{name_of(module)} has {lines} lines"


def test_a_function_is_short(module: Path, tree: ast.Module) -> None:
    long = [
        f"{name_of(module)}:{node.lineno} {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []


def test_only_the_clock_seam_waits(module: Path, tree: ast.Module) -> None:
    if name_of(module) in WAITS:
        return
    assert "sleep" not in imported_names(tree, "time")
    assert [call.lineno for name, call in calls(tree) if name == "time.sleep"] == []


def test_only_the_command_line_prints_and_exits(module: Path, tree: ast.Module) -> None:
    if name_of(module) in STAND_ALONE or name_of(module).startswith(("lab/cli/", "tui/__main__")):
        return
    talkers = {"print", "sys.exit", "exit", "quit", "os._exit"}
    assert [(name, call.lineno) for name, call in calls(tree) if name in talkers] == []


def test_only_the_seams_open_files_of_the_running_kernel(module: Path, tree: ast.Module) -> None:
    if name_of(module) in OPENS_KERNEL_FILES:
        return
    openers = {"open", "io.open", "os.open", "os.listdir", "os.scandir", "Path", "pathlib.Path"}
    opened = [
        (name, call.lineno)
        for name, call in calls(tree)
        if name in openers and call.args and leading_text(call.args[0]).startswith(("/sys/", "/proc/"))
    ]
    assert opened == []
