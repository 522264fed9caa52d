"""The list of planted bugs against the patches that they are, and how one is found, switched on and run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.arrays.levels import level_with_layout
from lab.errors import SpecError, ToolMissing
from lab.faults.campaign import (
    PlantedBug,
    find_planted_bug,
    on_planted_kernel,
    planted_bugs,
    planted_kernel,
)
from lab.faults.crash_points import promises
from lab.machine import Host, parse_target

PATCHES = Path(__file__).resolve().parents[3] / "provision/kernel/planted"
SWITCH_PATCH = "00-switch.patch"


def test_there_are_at_least_twelve_and_each_has_a_number_and_a_name_of_its_own() -> None:
    numbers = [bug.number for bug in planted_bugs()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 12
    assert len({bug.name for bug in planted_bugs()}) == len(numbers)


def test_every_patch_is_in_the_list_and_every_bug_has_its_patch() -> None:
    found = {path.name for path in PATCHES.iterdir()}
    assert found == {SWITCH_PATCH, *(bug.patch for bug in planted_bugs())}


@pytest.mark.parametrize("bug", planted_bugs(), ids=lambda bug: bug.name)
def test_a_patch_says_what_it_is_and_does_nothing_unless_its_own_bug_is_on(bug: PlantedBug) -> None:
    header, _, hunks = (PATCHES / bug.patch).read_text(encoding="ascii").partition("\n--- a/")
    assert header.startswith(f"Planted bug {bug.number}: ")
    for word in ("\nShows: ", "romise"):
        assert word in header
    added = "\n".join(line for line in hunks.splitlines() if line.startswith("+"))
    assert {int(number) for number in re.findall(r"\bmd_planted\W+(\d+)", added)} == {bug.number}
    files = set(re.findall(r"^\+\+\+ b/drivers/md/(\S+)$", "+++ b/" + hunks.partition("+++ b/")[2], re.MULTILINE))
    assert files == set(re.findall(r"[a-z0-9-]+\.c", bug.where))


@pytest.mark.parametrize("bug", planted_bugs(), ids=lambda bug: bug.name)
def test_each_of_its_policies_goes_with_one_of_its_levels_at_one_of_its_moments(bug: PlantedBug) -> None:
    known = promises()
    assert set(bug.moments) <= {moment.name for moment in known.moment}
    assert all(level_with_layout(level, None) for level in bug.levels)
    policies = {policy.name: policy for policy in known.policy}
    for name in bug.policies:
        possible = [
            (level, moment)
            for level in set(bug.levels) & set(policies[name].levels)
            for moment in bug.moments
            if not any(each.covers(level, name, moment) for each in known.impossible)
        ]
        assert possible, name


def test_one_is_found_by_its_number_and_its_name() -> None:
    bug = find_planted_bug("5")
    assert find_planted_bug(bug.name) is bug
    assert bug.name == "flush-misses-a-member"
    with pytest.raises(SpecError, match="no planted bug 'flush-misses-a-membr'") as refused:
        find_planted_bug("flush-misses-a-membr")
    assert "flush-misses-a-member" in refused.value.hint


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Host.real("tests")


def place_kernel(tmp_path: Path, *beside: str) -> Path:
    folder = tmp_path / "raidlab/kernels/planted"
    folder.mkdir(parents=True)
    for name in ("linux", *beside):
        (folder / name).write_text("#!/bin/sh\n", encoding="ascii")
        (folder / name).chmod(0o755)
    return folder / "linux"


def test_a_machine_with_them_runs_their_kernel_in_virtual_time(host: Host, tmp_path: Path) -> None:
    path = place_kernel(tmp_path, "release", "quick_clock.so")
    assert planted_kernel(host) == path
    assert str(on_planted_kernel(parse_target("uml:?mem=1G"), host)) == f"uml:?mem=1G&time=virtual&kernel={path}"
    once = on_planted_kernel(parse_target("uml:?time=virtual"), host)
    assert on_planted_kernel(once, host) == once == parse_target(str(once))


@pytest.mark.parametrize("is_half_there", [False, True])
def test_without_their_kernel_the_command_that_builds_it_is_told(
    host: Host, tmp_path: Path, is_half_there: bool
) -> None:
    if is_half_there:
        place_kernel(tmp_path)
    with pytest.raises(ToolMissing, match="planted bugs is not built") as missing:
        on_planted_kernel(parse_target("uml:"), host)
    assert "make planted-kernel" in missing.value.hint
