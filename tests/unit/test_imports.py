"""Imports, those in functions and for types alone included: no cycles, and none by a string."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter

import grimp

from docs.pictures.packages import REPOSITORY

BY_NAME = {
    "lab/machine/agent_programs.py": "imports the program that its client has sent",
    "lab/plugins.py": "entry points are names",
    "tui/keys.py": "imports every module of its package, to find their keys",
}


def test_no_imports_form_a_cycle() -> None:
    graph = grimp.build_graph("lab", "tui", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError, which names the modules.
    assert len(tuple(TopologicalSorter(imports).static_order())) == len(imports)


def test_no_module_is_imported_by_a_string() -> None:
    found: set[str] = set()
    for path in (path for package in ("lab", "tui") for path in (REPOSITORY / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        strings = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        is_named = any(re.fullmatch(r"(lab|tui)(\.\w+)+:\w+", each) for each in strings)
        if is_named or "import_module" in text or "__import__" in text:
            found.add(path.relative_to(REPOSITORY).as_posix())
    assert found == {*BY_NAME}
