"""The store of findings, and the script that each holds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.errors import ResultError, SpecError
from lab.faults.campaign import FindingRecord, FindingStore, plain_script
from lab.faults.history import ActKind, generated
from tests.unit.faults.played_histories import host_in

RECORD = FindingRecord(id="c1-7", kind="unreadable", text="2 blocks", title="RAID 5 of 4", act=1, differences=())


def test_what_is_kept_is_found_by_its_id_and_by_its_folder(tmp_path: Path) -> None:
    store, history = FindingStore(host_in(tmp_path)), generated(7)
    folder = store.keep(RECORD, history, {"kernel.log": b"all of it"})
    for word in ("c1-7", str(folder)):
        kept = store.find(word)
        assert kept is not None
        assert (kept.record, kept.history, kept.folder) == (RECORD, history, folder)
    assert (folder / "kernel.log").read_bytes() == b"all of it"
    assert store.find("c1-8") is None
    assert [each.record.id for each in store.all()] == ["c1-7"]
    store.remove("c1-7")
    assert store.all() == []


def test_a_finding_is_replaced_as_a_whole(tmp_path: Path) -> None:
    store = FindingStore(host_in(tmp_path))
    store.keep(RECORD, generated(7), {"old.txt": b"old"})
    folder = store.keep(RECORD, generated(7), {"new.txt": b"new"})
    assert {path.name for path in folder.iterdir()} == {"finding.json", "history.json", "new.txt"}
    assert [path.name for path in store.root.glob("[!.]*")] == ["c1-7"]


@pytest.mark.parametrize("is_new_there", [False, True])
def test_one_that_was_being_replaced_when_the_campaign_was_killed_is_still_there(
    tmp_path: Path, is_new_there: bool
) -> None:
    store = FindingStore(host_in(tmp_path))
    folder = store.keep(RECORD, generated(7), {"old.txt": b"old"})
    # Of a process that is gone for sure: the kernel gives out no such numbers.
    folder.rename(store.root / ".replacing-c1-7.999999999")
    if is_new_there:
        store.keep(RECORD, generated(7), {"new.txt": b"new"})
    (store.root / ".importing-c1-7.999999999").mkdir()
    store.remove_leftovers()
    assert [path.name for path in store.root.glob("[!.]*")] == ["c1-7"]
    assert [each.record.id for each in store.all()] == ["c1-7"]
    assert (folder / "old.txt").exists() != is_new_there


def test_one_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FindingStore(host_in(tmp_path))
    folder = store.keep(RECORD, generated(7), {"old.txt": b"old"})

    def refuse(*_: object) -> None:
        raise ResultError("no space left on device")

    monkeypatch.setattr("lab.store.runs.write_file", refuse)
    with pytest.raises(ResultError):
        store.keep(RECORD, generated(7), {"new.txt": b"new"})
    assert (folder / "old.txt").read_bytes() == b"old"
    assert [path.name for path in store.root.glob("[!.]*")] == ["c1-7"]


def test_a_name_that_leads_elsewhere_and_a_damaged_record_are_refused(tmp_path: Path) -> None:
    store = FindingStore(host_in(tmp_path))
    with pytest.raises(SpecError):
        store.find("..")
    folder = store.keep(RECORD, generated(7), {})
    (folder / "finding.json").write_text("{", encoding="utf-8")
    with pytest.raises(ResultError):
        store.find("c1-7")
    assert store.all() == []


def test_every_history_is_a_script_that_the_shell_understands(tmp_path: Path) -> None:
    kinds = set()
    for seed in range(1, 120):
        history = generated(seed)
        kinds |= {act.kind for act in history.acts}
        script = tmp_path / f"{seed}.sh"
        script.write_text(plain_script(history, title="what\nwas seen", finding_id=f"c1-{seed}"), encoding="utf-8")
    assert kinds == set(ActKind)
    scripts = sorted(map(str, tmp_path.glob("*.sh")))
    check = 'for script; do bash -n "$script" || exit 1; done'
    done = subprocess.run(["bash", "-c", check, "check", *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_writes_what_the_history_writes() -> None:
    history = generated(1)
    lines = plain_script(history, title="t", finding_id="c1-1").splitlines()
    writes = [write for act in history.acts for write in act.writes]
    assert sum(line.startswith("w ") for line in lines) == sum(count > 0 for _, count, _ in writes) + -(
        -history.shape.block_map().blocks // 64
    )
    assert sum(line == "flush" for line in lines) == sum(count == 0 for _, count, _ in writes) + 1


def test_only_what_is_in_the_store_is_forgotten_and_by_its_folder(tmp_path: Path) -> None:
    store = FindingStore(host_in(tmp_path))
    folder = store.keep(RECORD, generated(7), {})
    copy = shutil.copytree(folder, tmp_path / "copy")
    elsewhere = store.find(str(copy))
    assert elsewhere is not None
    with pytest.raises(SpecError, match="is not in the lab's store"):
        store.forget(elsewhere)
    assert folder.is_dir()
    kept = store.find("c1-7")
    assert kept is not None
    store.forget(kept)
    assert not folder.exists()


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    store, told = FindingStore(host_in(tmp_path)), list[str]()
    folder = store.keep(RECORD, generated(7), {})
    shutil.copytree(folder, store.root / "c1-9")
    (shutil.copytree(folder, store.root / "c1-8") / "finding.json").write_text("{", encoding="utf-8")
    (store.root / "c1-6").mkdir()
    assert [each.record.id for each in store.all(told.append)] == ["c1-7"]
    assert [line.split(":")[0] for line in told] == [f"finding c1-{n} cannot be read" for n in (6, 8, 9)]
