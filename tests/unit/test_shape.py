"""House rules that no linter knows: who waits, opens kernel files, prints and imports, and how long a function is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

import grimp
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = sorted(path for package in ("lab", "tui") for path in (REPOSITORY / package).rglob("*.py"))
STAND_ALONE = {"lab/disks/pace_program.py"} | {
    f"lab/machine/{name}.py"
    for name in (
        *("agent", "agent_programs", "agent_sample", "agent_terminal"),
        *("confinement", "disk_rescue", "kernel_init", "supervisor"),
    )
}
WAITS = {"lab/host/clock.py"} | STAND_ALONE
OPENS_KERNEL_FILES = {"lab/host/files.py", "lab/host/signals.py"} | STAND_ALONE
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


Nodes = list[ast.AST]
Modules = dict[str, Nodes]


def calls(nodes: Nodes) -> Iterator[tuple[str, ast.Call]]:
    for node in nodes:
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def imported_names(nodes: Nodes, module: str) -> set[str]:
    return {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


def leading_text(node: ast.expr) -> str:
    """The start of a string literal or f-string; empty for anything else."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return leading_text(node.values[0])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def parsed(paths: Iterable[Path]) -> Modules:
    return {name_of(path): list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in paths}


@pytest.fixture(scope="module")
def modules() -> Modules:
    """Path of each module -> all nodes of its syntax tree."""
    return parsed(MODULES)


def test_a_function_is_short(modules: Modules) -> None:
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name, nodes in modules.items()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []


def test_only_the_clock_waits(modules: Modules) -> None:
    others = {name: nodes for name, nodes in modules.items() if name not in WAITS}
    assert [name for name, nodes in others.items() if "sleep" in imported_names(nodes, "time")] == []
    assert called(others, {"time.sleep"}) == []


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


def test_types_are_decoded_where_threads_may_begin_it(modules: Modules) -> None:
    """See lab.gates.decoding; without a type there is nothing to work out."""
    wrong = [
        f"{name}:{call.lineno} calls {called}"
        for name, nodes in modules.items()
        if name != "lab/gates/decoding.py"
        for called, call in calls(nodes)
        if called in ("msgspec.convert", "msgspec.json.Decoder", "msgspec.toml.decode")
        or (called == "msgspec.json.decode" and (call.keywords or len(call.args) > 1))
    ]
    assert not wrong, "use lab.gates.decoding: " + ", ".join(wrong)


def test_only_the_command_line_prints_and_exits(modules: Modules) -> None:
    # lab.host.signals ends a process that has nothing to close, lab.sweep.node one of a cluster whose client is gone.
    talkers = (*STAND_ALONE, "lab/cli/", "lab/host/signals", "lab/sweep/node", "tui/__main__")
    others = {name: nodes for name, nodes in modules.items() if not name.startswith(talkers)}
    assert called(others, {"print", "sys.exit", "exit", "quit", "os._exit"}) == []


def called(modules: Modules, functions: set[str]) -> list[str]:
    return [
        f"{place}:{call.lineno}" for place, nodes in modules.items() for name, call in calls(nodes) if name in functions
    ]


def test_only_the_host_modules_open_files_of_the_running_kernel(modules: Modules) -> None:
    openers = {"open", "io.open", "os.open", "os.listdir", "os.scandir", "Path", "pathlib.Path"}
    opened = [
        f"{place}:{call.lineno}"
        for place, nodes in modules.items()
        for name, call in calls(nodes)
        if name in openers and call.args and leading_text(call.args[0]).startswith(("/sys/", "/proc/"))
        if place not in OPENS_KERNEL_FILES
    ]
    assert opened == []


BESIDE = sorted(path for folder in ("benchmarks", "docs") for path in (REPOSITORY / folder).rglob("*.py"))
STARTS_PYTHON = re.compile(r"\bpython3?\b['\"]?,? +['\"]?-(m|c)\b")
"""``python -m x`` in a line of a shell, or as words of a list; with ``-I`` before it the folder does not count."""


def test_python_is_started_by_one_function(modules: Modules) -> None:
    """What it imports is then not for the current folder, the environment or the user's site-packages to decide."""
    everywhere = modules | parsed(BESIDE)
    asked = [
        f"{name}:{node.lineno}"
        for name, nodes in everywhere.items()
        for node in nodes
        if isinstance(node, ast.Attribute) and dotted(node) == "sys.executable" and name != "lab/host/processes.py"
    ]
    assert asked == [], "lab.host.processes.isolated_python starts Python"
    # lab.host.pool starts what is isolated if this process is.
    assert called(everywhere, {"multiprocessing.Process", "runpy.run_module"}) == []


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


# plain_stack.py is one of the programs of the machine.
WRITES_FILES = {"lab/host/files.py", "lab/gates/files.py", "lab/disks/drive/plain_stack.py"} | STAND_ALONE
LOCKS_FILES = {"lab/host/files.py"}
WRITING_METHODS = {"write_text", "write_bytes", "touch", "hardlink_to", "symlink_to"}
WRITING_FUNCTIONS = {
    *("os.link", "os.symlink", "os.mkfifo", "os.mknod", "os.replace", "os.rename", "os.creat"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move", "tempfile.mktemp"),
}
READING_FLAGS = {"O_RDONLY", "O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"}


def writes_a_file(name: str, call: ast.Call) -> bool:
    """Whether a call makes a file, or opens one to write into it."""
    last = name.rpartition(".")[2]
    if name == "text.write_text":
        # Of lab.cli.array, which makes text of a write.
        return False
    if name in WRITING_FUNCTIONS or (last in WRITING_METHODS and not isinstance(call.func, ast.Name)):
        return True
    if name == "os.open":
        # /dev/null and the like are there.
        is_device = "devnull" in ast.dump(call.args[0])
        flags = {
            each.attr for each in ast.walk(call.args[1]) if isinstance(each, ast.Attribute) and each.attr[:2] == "O_"
        }
        return not is_device and (not flags or not flags <= READING_FLAGS)
    if last == "open" and name not in ("os.open", "zipfile.ZipFile.open"):
        modes = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
        return any(set(leading_text(each)) & set("wax+") for each in modes if len(leading_text(each)) in (1, 2, 3))
    return False


def test_files_are_written_by_one_module(modules: Modules) -> None:
    """A name that nobody can foresee, no pipe or link of somebody else's, nothing half written."""
    wrong = [
        f"{place}:{call.lineno} {name}"
        for place, nodes in modules.items()
        # Programs run on the machine, as root, in folders that are root's.
        if place not in WRITES_FILES and not place.endswith("_program.py") and not place.startswith("lab/faults/guest/")
        for name, call in calls(nodes)
        if writes_a_file(name, call)
    ]
    assert not wrong, f"lab.host.files writes files: {wrong}"


def test_locks_are_taken_by_one_module(modules: Modules) -> None:
    others = {name: nodes for name, nodes in modules.items() if name not in LOCKS_FILES}
    assert called(others, {"fcntl.flock", "fcntl.lockf"}) == []


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


def test_few_places_ask_what_kind_of_array_they_have(modules: Modules) -> None:
    asked = [
        f"{name}:{node.lineno}"
        for name, nodes in modules.items()
        for node in nodes
        if isinstance(node, ast.expr | ast.pattern) and asks_for_a_kind(node)
    ]
    assert len(asked) <= QUESTIONS_OF_KIND, asked


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


def test_no_imports_form_a_cycle() -> None:
    """Imports in functions and for types included."""
    graph = grimp.build_graph("lab", "tui", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError, which names the modules.
    assert len(tuple(TopologicalSorter(imports).static_order())) == len(imports)


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
