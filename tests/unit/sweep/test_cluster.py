"""``--cluster`` as it is typed."""

from __future__ import annotations

import pytest

from lab.errors import SpecError
from lab.sweep.cluster import ClusterKind, SshTable, parse_cluster
from lab.sweep.pool import remote_line


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
def test_kinds(text: str, kind: ClusterKind, workers: int, hosts: tuple[str, ...]) -> None:
    found = parse_cluster(text)
    assert (found.kind, found.workers, found.hosts) == (kind, workers, hosts)
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "local:0",
        "local:x",
        "local:99999",
        "ssh:",
        "ssh:-oProxyCommand=x",
        "ssh:a,a",
        "ssh:a;b",
        "slurm:x",
        "tcp://x",
    ],
)
def test_others_are_refused_with_a_hint(text: str) -> None:
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
