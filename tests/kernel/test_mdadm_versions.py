"""A machine with another mdadm: every way to start it starts that one, and what is recorded is its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.machine import open_machine
from tests.kernel.place import host_at, real_time_target

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300)]

PROGRAM = '#!/bin/sh\necho "mdadm - v9.9 - from $0"\n'


def test_another_mdadm_is_started_by_its_name_and_by_the_path_of_this_computers(tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    target = real_time_target().with_option("mdadm", str(folder))
    with pytest.raises(SpecError, match="there is no mdadm in"), open_machine(target, host_at(tmp_path / "state")):
        pass
    for name in ("mdadm", "mdmon"):
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    with open_machine(target, host_at(tmp_path / "state")) as machine:
        for argv in (("mdadm",), ("/usr/sbin/mdadm",), ("/sbin/mdadm",), ("sh", "-c", "PATH=/usr/sbin mdmon")):
            assert machine.run(argv).stdout.startswith("mdadm - v9.9 - from "), argv
    with open_machine(real_time_target(), host_at(tmp_path / "state")) as machine:
        said = machine.run(("mdadm", "--version"))
        assert "v9.9" not in said.stdout + said.stderr
