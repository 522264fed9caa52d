"""House rules that no linter knows: who waits, prints, opens and writes files, and how long a function is."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

import grimp
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
STAND_ALONE = {"lab/disks/pace_program.py"} | {
    f"lab/machine/{name}.py"
    for name in (
        *("agent", "agent_programs", "agent_sample", "agent_terminal"),
        *("confinement", "disk_rescue", "kernel_init", "supervisor"),
    )
}
FUNCTION_LINES = 60
Modules = dict[str, list[ast.AST]]


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def dotted(node: ast.expr) -> str:
    """``time.sleep`` for the expression time.sleep; empty for anything that is no dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def leading_text(node: ast.expr) -> str:
    """The start of a string literal or f-string; empty for anything else."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return leading_text(node.values[0])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def parsed(folders: Iterable[str]) -> Modules:
    paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    return {name_of(path): list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in paths}


@pytest.fixture(scope="module")
def modules() -> Modules:
    return parsed(("lab", "tui"))


def calls(modules: Modules, is_meant: Callable[[str, ast.Call], object], *, but: Iterable[str] = ()) -> list[str]:
    """Return the calls for which ``is_meant`` is true, except in modules whose paths begin with one of ``but``."""
    return [
        f"{place}:{node.lineno} {name}"
        for place, nodes in modules.items()
        if not place.startswith(tuple(but))
        for node in nodes
        if isinstance(node, ast.Call) and is_meant(name := dotted(node.func), node)
    ]


def test_a_function_is_short(modules: Modules) -> None:
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name, nodes in modules.items()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize(
    ("functions", "places"),
    [
        ({"time.sleep", "sleep"}, {"lab/host/clock.py"} | STAND_ALONE),
        # lab.host.signals ends what has nothing to close, lab.sweep.node a process of a cluster whose client is gone.
        (
            {"print", "sys.exit", "exit", "quit", "os._exit"},
            {"lab/cli/", "lab/host/signals", "lab/sweep/node", "tui/__main__"} | STAND_ALONE,
        ),
        ({"fcntl.flock", "fcntl.lockf"}, {"lab/host/files.py"}),
        # Its docstring says why.
        ({"msgspec.convert", "msgspec.json.Decoder", "msgspec.toml.decode"}, {"lab/gates/decoding.py"}),
    ],
)
def test_a_function_is_called_only_where_it_belongs(modules: Modules, functions: set[str], places: set[str]) -> None:
    assert calls(modules, lambda name, _: name in functions, but=places) == []


def test_json_is_decoded_to_a_type_where_threads_may_begin_it(modules: Modules) -> None:
    """See lab.gates.decoding; without a type there is nothing to work out."""

    def is_typed(name: str, call: ast.Call) -> bool:
        return name == "msgspec.json.decode" and bool(call.keywords or call.args[1:])

    assert calls(modules, is_typed, but=["lab/gates/decoding.py"]) == []


def test_only_the_host_modules_open_files_of_the_running_kernel(modules: Modules) -> None:
    openers = {"open", "io.open", "os.open", "os.listdir", "os.scandir", "Path", "pathlib.Path"}

    def opens(name: str, call: ast.Call) -> bool:
        return name in openers and bool(call.args) and leading_text(call.args[0]).startswith(("/sys/", "/proc/"))

    assert calls(modules, opens, but={"lab/host/files.py", "lab/host/signals.py"} | STAND_ALONE) == []


STARTS_PYTHON = re.compile(r"\bpython3?\b['\"]?,? +['\"]?-(m|c)\b")
"""``python -m x`` in a line of a shell, or as words of a list; with ``-I`` before it the folder does not count."""


def test_python_is_started_by_one_function(modules: Modules) -> None:
    """Otherwise the current folder, the environment or the user's site-packages would decide what it imports."""
    everywhere = modules | parsed(("benchmarks", "docs"))
    asked = [
        f"{name}:{node.lineno}"
        for name, nodes in everywhere.items()
        for node in nodes
        if isinstance(node, ast.Attribute) and dotted(node) == "sys.executable" and name != "lab/host/processes.py"
    ]
    assert asked == [], "lab.host.processes.isolated_python starts Python"
    # lab.host.pool starts what is isolated if this process is.
    assert calls(everywhere, lambda name, _: name in ("multiprocessing.Process", "runpy.run_module")) == []


def test_no_line_that_is_written_down_starts_python_in_the_current_folder() -> None:
    endings = (".md", ".sh", ".toml", ".rb", ".py", ".yml", ".hcl", ".in", "run", "raidlab", "file")
    folders = ("lab", "tui", "provision", "packer", "benchmarks", "docs", ".ci")
    inner = [path for folder in folders for path in (REPOSITORY / folder).rglob("*")]
    found = [path for path in (*REPOSITORY.iterdir(), *inner) if path.is_file() and path.name.endswith(endings)]
    assert REPOSITORY / "provision/host/venv.sh" in found
    wrong = [
        f"{name}:{number}"
        for path in found
        if (name := name_of(path)) != "CHANGELOG.md"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if STARTS_PYTHON.search(line)
    ]
    assert not wrong, f"write python -I -m: {wrong}"


WRITING_METHODS = {"write_text", "write_bytes", "touch", "hardlink_to", "symlink_to"}
WRITING_FUNCTIONS = {
    *("os.link", "os.symlink", "os.mkfifo", "os.mknod", "os.replace", "os.rename", "os.creat"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move", "tempfile.mktemp"),
}
READING_FLAGS = {"O_RDONLY", "O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"}


def writes_a_file(name: str, call: ast.Call) -> bool:
    """Whether a call makes a file, or opens one to write into it."""
    last = name.rpartition(".")[2]
    if name in WRITING_FUNCTIONS or (last in WRITING_METHODS and not isinstance(call.func, ast.Name)):
        return True
    if name == "os.open":
        # /dev/null and the like are there.
        is_device = "devnull" in ast.dump(call.args[0])
        flags = {
            each.attr for each in ast.walk(call.args[1]) if isinstance(each, ast.Attribute) and each.attr[:2] == "O_"
        }
        return not is_device and (not flags or not flags <= READING_FLAGS)
    if last == "open" and name != "zipfile.ZipFile.open":
        modes = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
        return any(set(leading_text(each)) & set("wax+") for each in modes if len(leading_text(each)) in (1, 2, 3))
    return False


def test_files_are_written_by_one_module(modules: Modules) -> None:
    """That module uses unpredictable names, follows nobody's pipe or link, and leaves nothing half written."""
    # Programs run on the machine, as root, in folders that are root's.
    programs = {name for name in modules if name.endswith(("_program.py", "plain_stack.py"))}
    writers = {"lab/host/files.py", "lab/gates/files.py", "lab/faults/guest/"}
    assert calls(modules, writes_a_file, but=writers | programs | STAND_ALONE) == []


def test_no_imports_form_a_cycle() -> None:
    """Imports in functions and for types included."""
    graph = grimp.build_graph("lab", "tui", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError, which names the modules.
    assert len(tuple(TopologicalSorter(imports).static_order())) == len(imports)


PAUSING_LOOPS = {
    "lab/arrays/status.py": "waits for md as long as it makes progress, on the machine's clock",
    "lab/cli/load.py": "prints a sample at each interval",
    "lab/cli/session.py": "a thread that works until its command has ended",
    "lab/disks/pace_program.py": "stands alone on the machine",
    "lab/faults/campaign.py": "waits for threads, where a signal must be able to interrupt it",
    "lab/host/clock.py": "the wait loop",
    "lab/machine/agent.py": "stands alone on the machine",
    "lab/machine/kernel_init.py": "stands alone on the machine",
    "lab/machine/watchdog.py": "a thread that closes a machine that takes too long",
    "lab/session/monitor.py": "a thread that takes samples until the session is closed",
    "lab/session/pace.py": "lets time pass on the machine",
    "lab/sweep/pool.py": "replaces workers while it waits for them",
    "lab/sweep/spread.py": "replaces workers while it waits for an answer",
    "tui/driver.py": "the thread that reads the terminal",
}


def test_every_loop_that_pauses_is_listed_with_its_reason(modules: Modules) -> None:
    found = {name for name, nodes in modules.items() for node in nodes if isinstance(node, ast.While) and pauses(node)}
    assert found == set(PAUSING_LOOPS)


def pauses(loop: ast.While) -> bool:
    """Whether something in the loop sleeps, or waits with a time limit."""
    return any(
        node.func.attr == "sleep" or (node.func.attr in ("wait", "result") and bool(node.args or node.keywords))
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )


BY_NAME = {
    "lab/machine/agent.py": "runs the modules with further verbs that its client has sent",
    "lab/machine/agent_programs.py": "imports the program that its client has sent",
    "lab/machine/api.py": "sends the agent the module whose name contains that of the verbs",
    "lab/machine/attached.py": "its command on the other computer runs the agent that follows on standard input",
    "lab/machine/programs.py": "sends a program with the modules that its lines of imports name",
    "lab/plugins.py": "entry points are names",
    "lab/sweep/pool.py": "starts lab.sweep.node as a process",
    "tui/keys.py": "imports every module of its package, to find their keys",
    "tui/serve.py": "starts the app as a process",
}


def uses_a_module_by_name(node: ast.AST) -> bool:
    """Whether a node imports, runs or sends a module that no import names."""
    if isinstance(node, ast.Name | ast.Attribute):
        return dotted(node).endswith(("import_module", "__import__")) or dotted(node) == "exec"
    if isinstance(node, ast.JoinedStr):
        # A file's name made from a word.
        return isinstance(node.values[-1], ast.Constant) and str(node.values[-1].value).endswith(".py")
    if isinstance(node, ast.Constant):
        return bool(re.search(r"^(lab|tui)(\.\w+)+:\w+$|\bexec\(", leading_text(node)))
    words: list[str] = []
    if isinstance(node, ast.Tuple | ast.List | ast.Call):
        words = [leading_text(each) for each in (node.args if isinstance(node, ast.Call) else node.elts)]
    return any(flag == "-m" and re.fullmatch(r"(lab|tui)(\.\w+)*", module) for flag, module in pairwise(words))


def test_no_module_is_imported_by_a_string(modules: Modules) -> None:
    found = {name for name, nodes in modules.items() if any(map(uses_a_module_by_name, nodes))}
    assert found == {*BY_NAME}
