"""Verdicts on scripts that others wrote."""

from __future__ import annotations

import json

from tests.hardening.workbench import Bench, expect, promise

OPTIONS = "--name=x --filename=/dev/md0 --rw=randwrite --bs=4k --size=1G"
JOB = "[x]\nfilename=/dev/md0\nrw=randwrite\nbs=4k\nsize=1G\n"
SCRIPTS = {
    "plain": f"#!/bin/sh\nfio {OPTIONS}\n",
    "loop": f"for i in 1 2; do fio {OPTIONS}; done\n",
    "sudo": f"sudo env X=1 fio {OPTIONS}\n",
    "continued": "fio " + OPTIONS.replace(" ", " \\\n  ") + "\n",
    "output": f"fio {OPTIONS} --output=out.json --output-format=json\n",
    "here": f"fio - <<EOF\n{JOB}EOF\n",
}


def rules(bench: Bench, file: str) -> set[str]:
    done = bench.run("lint", file, "--json").is_answer()
    return {each["rule"] for each in json.loads(done.out)}


@promise("a fio command in a script breaks what the same job breaks in a file, and what is not analysed is said")
def _(bench: Bench) -> None:
    in_file = rules(bench, bench.file("a.fio", JOB))
    expect(in_file == {"runtime-short", "buffered-writer"}, f"the job file: {in_file}")
    for name, text in SCRIPTS.items():
        found = rules(bench, bench.file(f"{name}.sh", text))
        expect(found == in_file, f"{name}: {found} instead of {in_file}")
    found = rules(bench, bench.file("b.sh", f"fio {OPTIONS} --exec_prerun=id\n"))
    expect("foreign-command" in found, f"--exec_prerun is not named: {found}")
    for text in ("fio $(cat options)", 'fio "$@"', "fio other.fio", f"ssh host fio {OPTIONS}"):
        done = bench.run("lint", bench.file("c.sh", f"\n{text}\n"))
        expect("not-analysed" in done.out and "line 2" in done.out, f"{text}: {done}")
        expect("no rule is broken" not in done.said, f"{text}: {done}")
