"""Verdicts: of scripts that others wrote, of md, and of what a planted bug has to answer for."""

from __future__ import annotations

import json

from lab.faults import campaign as campaigns
from lab.faults.campaign import Campaign, begun_campaign
from lab.faults.history import (
    Act,
    ActKind,
    ArrayShape,
    FaultHistory,
    HistoryPolicy,
    PlannedStep,
    Purpose,
    generated,
    parse_id,
)
from lab.faults.judge import HistoryJudge
from tests.hardening.workbench import Bench, expect, promise
from tests.unit.faults.played_histories import PlayedByRule, host_in

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


@promise("a scrub is expected to find nothing only where every sync was complete before it")
def _(bench: Bench) -> None:
    whole = {f"/dev/drive{drive}": [drive, "in_sync"] for drive in range(3)}

    def seen(**state: str) -> dict[str, object]:
        told = {"raid_disks": "3", "degraded": "0", "resync_start": "none", "reshape_position": "none", **state}
        return {"state": told, "members": whole, "idle": True, "verdicts": {}, "bad": []}

    for due, expected in (("2816", []), ("none", ["scrub counts"])):
        shape = ArrayShape(level="1", members=3, policy=HistoryPolicy.RESYNC)
        judge = HistoryJudge(FaultHistory(1, shape, (Act(ActKind.SCRUB, word="repair"),)))
        judge.hear(PlannedStep(["check"], 0, Purpose.LOOK), seen(resync_start=due))
        judge.hear(PlannedStep(["idle", 1], 0, Purpose.SCRUBBED), seen(mismatch_cnt="512"))
        kinds = [each.kind for each in judge.differences]
        expect(kinds == expected, f"resync_start {due}: {kinds} instead of {expected}")


@promise("a find of a planted bug counts only if the same history does not show it without the bug")
def _(bench: Bench) -> None:
    kind, first = "lost after acknowledgement", generated(1).seed
    played = PlayedByRule(lambda _: kind, host_in(bench.folder), planted=3)
    played.control = lambda history: kind if history.seed == first else ""
    kept = {name: getattr(campaigns, name) for name in ("play", "replayed")}
    for name in kept:
        setattr(campaigns, name, getattr(played, name))
    try:
        with begun_campaign(played.host, "uml:?time=virtual", first=1, seeds=9, seconds=0.0, planted=3) as journal:
            run = Campaign(journal, played.arena, workers=1, stops_at_first=True)
            run._investigate = lambda record, before=0: None  # type: ignore[method-assign]
            summary = run.run()
    finally:
        for name, value in kept.items():
            setattr(campaigns, name, value)
    seeds = [parse_id(each.id).seed for each in summary.findings]
    expect(seeds == [first + 1], f"finds at seeds {seeds}, and seed {first} shows the same without the bug")
