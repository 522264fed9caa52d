"""The command ``raidlab findings`` runs scripts that reproduce findings on several kernels and versions of mdadm."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.cli.arguments import number
from lab.cli.context import Context, current, fitted, named_target
from lab.errors import ExitCode, SpecError
from lab.findings.record import VERDICTS, Record, read_record, read_script, record_table, with_outcomes
from lab.findings.runner import measure
from lab.gates.decoding import RepeatCount, Seconds
from lab.gates.files import read_text
from lab.host.files import write_file
from lab.machine import Target, parse_target
from lab.units import MIB

_OUTPUT = "--output runs.json"

app = App(name="findings")


@app.command(name="run")
def run(
    *scripts: Annotated[Path, Parameter(help="Scripts such as docs/findings/*.sh.")],
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="The record of the runs, as JSON.")] = None,
    kernel: Annotated[tuple[str, ...], Parameter(help="A kernel, as in 'qemu:?kernel=6.12'. May be repeated.")] = (),
    mdadm: Annotated[tuple[str, ...], Parameter(help="An mdadm, as in 'uml:?mdadm=4.4'. May be repeated.")] = (),
    repeat: Annotated[int, number(RepeatCount, help="The number of runs of each script on each machine.")] = 5,
    limit: Annotated[float, number(Seconds, help="Time limit of a run by the machine's clock, in seconds.")] = 300.0,
) -> int:
    """Run scripts on blank disks, on every kernel with every mdadm, and print how often each finding was reproduced.

    A script's exit status is 0 (reproduced), 1 (refuted) or 2 (could not be tried). Runs that OUTPUT already contains
    are not repeated, unless the script has changed. Arrays start read-auto in half of the runs. Independently of that,
    udev is running in half of them.
    """
    context = current()
    if not scripts:
        hint = f"give at least one: raidlab findings run docs/findings/*.sh {_OUTPUT}"
        raise SpecError("no script was given", hint=hint)
    if output is None:
        # There is no default file, because runs of earlier calls would be in it and would therefore not be repeated.
        raise SpecError("no file was given for the record of the runs", hint=f"add {_OUTPUT}, or another file name")
    chosen = [read_script(path) for path in scripts]
    names = [script.name for script in chosen]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(
            f"several scripts are named {', '.join(twice)}",
            hint="give each script only once, or rename one, because the record distinguishes scripts by their names",
        )
    if not output.absolute().parent.is_dir():
        raise SpecError(f"the record cannot be written: there is no folder '{output.parent}'", hint="create it first")
    targets = [_machine(context, *axes) for axes in product(kernel or ("",), mdadm or ("",))]

    notice, listen = context.narrator.notice, context.narrator.listen
    for target in targets:
        cells = measure(chosen, target, repeat, limit, output, context.host, on_notice=notice, on_machine=listen)
        for cell in cells:
            last = cell.runs[-1]
            where = f"Linux {cell.kernel}, mdadm {cell.mdadm_version}"
            notice(f"{where}, {cell.script}, run {len(cell.runs)}: {last.outcome}: {last.said}")
    measured = Record(cells=tuple(cell for cell in read_record(output).cells if cell.target in map(str, targets)))
    context.out(msgspec.to_builtins(measured), fitted(record_table(measured)))
    has_verdicts = all(each.outcome in VERDICTS for cell in measured.cells for each in cell.runs)
    return ExitCode.DONE if has_verdicts else ExitCode.FAILED


@app.command(name="show")
def show(
    record: Annotated[Path, Parameter(help="The record of the runs.")],
    *,
    into: Annotated[
        Path | None,
        Parameter(help="Fill in the tables of a Markdown page with columns such as 'Linux 6.1' and rows for scripts."),
    ] = None,
) -> int:
    """Print how often each finding was reproduced on each kernel with each mdadm."""
    context = current()
    stored = read_record(record)
    if into is not None:
        write_file(into, with_outcomes(read_text(into, MIB), stored).encode())
        context.narrator.notice(f"written to {into}")
        return ExitCode.DONE
    context.out(msgspec.to_builtins(stored), fitted(record_table(stored)))
    return ExitCode.DONE


def _machine(context: Context, kernel: str, mdadm: str) -> Target:
    """Return the target that the user chose, or qemu: by default, with this kernel and mdadm."""
    target = context.target if named_target() else parse_target("qemu:")
    if not target.is_embedded:
        raise SpecError(
            f"the scripts of findings do not run on {target}", hint="run them in a separate machine: --on qemu:"
        )
    for key, value in (("kernel", kernel), ("mdadm", mdadm)):
        if value and key in target.options:
            raise SpecError(f"the {key} is given twice: {target}, and --{key} {value}", hint="give it only once")
        target = target.with_option(key, value) if value else target
    # Parsing the target again rejects a kernel together with a root image, which contains its own kernel.
    return parse_target(str(target))
