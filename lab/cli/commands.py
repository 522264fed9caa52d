"""raidlab's own commands. The module of each is imported when the command is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.extension import Command

if TYPE_CHECKING:
    from lab.cli.extension import Loaded


def _doctor() -> Loaded:
    from lab.cli.doctor import doctor

    return doctor


def _disks() -> Loaded:
    from lab.cli.disks import app

    return app


def _array() -> Loaded:
    from lab.cli.array import app

    return app


def _watch() -> Loaded:
    from lab.cli.watch import watch

    return watch


def _load() -> Loaded:
    from lab.cli.load import load

    return load


def _workloads() -> Loaded:
    from lab.cli.load import workloads

    return workloads


def _exec() -> Loaded:
    from lab.cli.shell import execute

    return execute


def _shell() -> Loaded:
    from lab.cli.shell import shell

    return shell


def _run() -> Loaded:
    from lab.cli.run import run

    return run


def _fault() -> Loaded:
    from lab.cli.fault import app

    return app


def _drill() -> Loaded:
    from lab.cli.drill import app

    return app


def _lesson() -> Loaded:
    from lab.cli.lesson import app

    return app


def _results() -> Loaded:
    from lab.cli.results import app

    return app


def _lint() -> Loaded:
    from lab.cli.lint import lint

    return lint


def _compare() -> Loaded:
    from lab.cli.compare import compare

    return compare


def _report() -> Loaded:
    from lab.cli.report import report

    return report


def _export() -> Loaded:
    from lab.cli.results import export

    return export


def _serve() -> Loaded:
    from lab.cli.serve import serve

    return serve


COMMANDS = (
    Command("doctor", _doctor, "What this computer can do, what is missing, and the command that fixes it."),
    Command("disks", _disks, "Lab disks, and every refused disk with its reason."),
    Command("array", _array, "Create, show, change, break and repair arrays."),
    Command("watch", _watch, "Arrays, members and rebuilds, live."),
    Command("load", _load, "Run one workload on one array, live."),
    Command("workloads", _workloads, "The catalogue of workloads."),
    Command("exec", _exec, "Run a command on the machine while the lab is open."),
    Command("shell", _shell, "A terminal on the machine while the lab is open."),
    Command("run", _run, "Run an experiment."),
    Command("fault", _fault, "Faults that end in a verdict on the data: scenarios, power cuts, campaigns."),
    Command("drill", _drill, "Disasters to practise on: an array in trouble, and a verdict on the data."),
    Command("lesson", _lesson, "Guided lessons: read, predict, do, check, understand."),
    Command("results", _results, "Stored results."),
    Command("lint", _lint, "What makes a measurement untrustworthy, rule by rule."),
    Command("compare", _compare, "Two results side by side: ratios, and which is faster."),
    Command("report", _report, "Results as one document: HTML with plots, Markdown, CSV or text."),
    Command("export", _export, "Results as one file that can be read back elsewhere."),
    Command("serve", _serve, "The app in a browser, on loopback only."),
)
