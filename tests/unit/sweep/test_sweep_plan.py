"""``--cluster``, and what is planned: cells that are there, folders in which no machine could be started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.cli.context import ProgressBar
from lab.errors import SpecError, ToolMissing
from lab.host.processes import Processes
from lab.machine import Host, parse_target
from lab.machine.embedded import UML_DIR_BYTES, require_fitting_paths
from lab.machine.kernel_image import KernelImage
from lab.sweep.cells import CellStore, cell_store, kernel_path, packed, unpacked_cell
from lab.sweep.cluster import ClusterKind, SshTable, parse_cluster
from lab.sweep.command import planning_shown
from lab.sweep.pool import remote_line
from lab.sweep.schema import decode_sweep
from lab.sweep.service import MOST_REASONS, SweepPlan, SweepRequest, plan_lines, plan_sweep, run_sweep
from tests.unit.fakes import FakeClock
from tests.unit.results import records
from tests.unit.sweep.made_sweeps import cell_file
from tests.unit.sweep.test_desk import host as host
from tests.unit.sweep.test_schema import FILE, HERE

IMAGE = KernelImage(Path("/usr/bin/linux.uml"), None)
ALLOWED = frozenset({"too-short-for-latency"})


@pytest.fixture(autouse=True)
def facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.sweep.service.facts", lambda *_, **__: HERE)


def request(host: Host, **changed: Any) -> SweepRequest:
    target = parse_target("uml:?time=virtual")
    return SweepRequest(target, host, parse_cluster("local:1"), allowed_rules=ALLOWED, **changed)


def planned(host: Host, text: str = FILE, **changed: Any) -> SweepPlan:
    return plan_sweep(decode_sweep(text, "test"), text, request(host, **changed))


def put(store: CellStore, key: str) -> Path:
    store.add(key, cell_file(key))
    return store.path(key)


def test_a_damaged_cell_is_planned_as_one_that_is_to_be_measured(host: Host) -> None:
    keys = [task.key for task in planned(host).tasks]
    whole, empty, cut, changed, other = (put(cell_store(host), key) for key in keys[:5])
    assert planned(host).done == set(keys[:5])
    data = cut.read_bytes()
    empty.write_bytes(b"")
    cut.write_bytes(data[:-9])
    changed.write_bytes(data[:30] + bytes([data[30] ^ 1]) + data[31:])
    other.write_bytes(whole.read_bytes())
    plan = planned(host)
    assert plan.done == {keys[0]}
    assert [task.key for task in plan.missing] == keys[1:]


def test_reads_and_writes_of_a_mixed_load_have_separate_predictions(host: Host) -> None:
    task = planned(host, FILE.replace("rand-read-4k", "rand-mix-4k")).tasks[0]
    mixed = records.cell("array", "rand-mix-4k", 0, read_iops=300.0, write_iops=100.0, predicted_iops=800.0)
    data = packed(task, records.record(cells=(mixed,)), measured_utc="", computer="", seconds=1.0)
    rows = unpacked_cell(data, "a cell").rows
    assert [(row.direction, row.iops, row.predicted_iops) for row in rows] == [
        ("read", 300.0, 600.0),
        ("write", 100.0, 200.0),
    ]


def test_planning_reports_its_progress(host: Host) -> None:
    reported: list[float] = []
    for task in planned(host).tasks:
        put(cell_store(host), task.key)
    planned(host, on_planned=reported.append)
    assert reported == [0.0, 0.3, 0.7, 0.8]


def test_a_terminal_sees_planning_from_a_second_on_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal, expected in ((True, [0.5]), (False, [])):
        shown: list[float] = []
        clock, bar = FakeClock(), ProgressBar(is_terminal=is_terminal)
        monkeypatch.setattr(bar, "show", lambda _, part, shown=shown: shown.append(part))
        show = planning_shown(bar, clock)
        show(0.2)
        clock.sleep(1.1)
        show(0.5)
        assert shown == expected


def test_of_many_reasons_some_are_printed_and_the_others_counted(host: Host) -> None:
    text = FILE.replace("[2, 4]", str(list(range(4, 40)))).replace('"512K"', '"32M"')
    lines = list(plan_lines(planned(host, text), request(host)))
    assert sum("left out as impossible" in line for line in lines) == MOST_REASONS
    assert any("left out for 24 other reasons (combinations: 48)" in line for line in lines)


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "a,b", "a:b"])
def test_a_state_folder_with_a_name_that_the_kernel_cannot_use_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="cannot use the path") as caught:
        require_fitting_paths(Path("/tmp") / name, Path("sweeps"), IMAGE)
    assert f"'/tmp/{name}'" in caught.value.message
    require_fitting_paths(Path("/tmp/ä;$%=b"), Path("sweeps"), IMAGE)


def test_a_state_folder_that_is_too_long_is_refused() -> None:
    inside = len("/machines/1234567-12345678/uml")
    for letter in ("a", "ä"):
        longest = (UML_DIR_BYTES - inside - 1) // len(letter.encode())
        require_fitting_paths(Path("/" + letter * longest), Path(), IMAGE)
        with pytest.raises(SpecError, match="a path of more than 506 bytes"):
            require_fitting_paths(Path("/" + letter * (longest + 1)), Path(), IMAGE)
    # The paths of file disks are in the command line too.
    require_fitting_paths(Path("/" + "a" * 200), Path(), IMAGE, 4)
    with pytest.raises(SpecError, match="command line"):
        require_fitting_paths(Path("/" + "a" * 200), Path(), IMAGE, 16)


def test_a_word_in_a_suggested_command_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A worker gets the word from another computer.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ToolMissing) as caught:
        kernel_path("6.1; reboot")
    words = Processes().run(("sh", "-c", f"printf '%s\\n' {caught.value.hint}")).stdout.splitlines()
    assert words[-1] == "linux-source-6.1; reboot.tar.xz"


@pytest.mark.parametrize(
    ("text", "kind", "workers", "hosts"),
    [
        ("local", ClusterKind.LOCAL, 0, ()),
        ("local:3", ClusterKind.LOCAL, 3, ()),
        ("ssh:lab1", ClusterKind.SSH, 0, ("lab1",)),
        ("ssh:root@lab1, lab2.example", ClusterKind.SSH, 0, ("root@lab1", "lab2.example")),
        ("slurm", ClusterKind.SLURM, 0, ()),
        ("tcp://10.0.0.1:8786", ClusterKind.ADDRESS, 0, ()),
        ("tls://[::1]:8786", ClusterKind.ADDRESS, 0, ()),
    ],
)
def test_kinds_of_clusters(text: str, kind: ClusterKind, workers: int, hosts: tuple[str, ...]) -> None:
    found = parse_cluster(text)
    assert (found.kind, found.workers, found.hosts) == (kind, workers, hosts)
    assert found.text == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "local:0", "local:x", "local:99999", "slurm:x", "tcp://x"),
        *("ssh:", "ssh:-oProxyCommand=x", "ssh:a,a", "ssh:a;b"),
    ],
)
def test_other_clusters_are_refused_with_a_hint(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_cluster(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (SshTable(python="/opt/lab/bin/python"), "exec env /opt/lab/bin/python -I -m x"),
        (SshTable(python="python3", state="/srv/my lab"), "exec env 'RAIDLAB_STATE=/srv/my lab' python3 -I -m x"),
    ],
)
def test_a_worker_on_another_computer_has_the_state_folder_that_the_table_names(table: SshTable, line: str) -> None:
    assert remote_line(table, ("-m", "x")) == line


def test_a_sweep_keeps_figures_that_were_measured_under_other_conditions(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr("lab.sweep.service._Run.run", lambda _: None)
    asked = request(host, on_notice=heard.append)
    first = run_sweep(planned(host), asked).folder
    assert first
    put(cell_store(host), first.record.cells[0].key)
    assert run_sweep(planned(host), asked, first).folder == first
    monkeypatch.setattr("lab.sweep.service.facts", lambda *_, **__: {**HERE, "mdadm": "another"})
    second = run_sweep(planned(host), asked, first).folder
    assert heard == [
        f"1 cell of {first.id} was measured with a different raidlab version, program, kernel or computer, "
        "so this is a new sweep"
    ]
    assert second.id != first.id
