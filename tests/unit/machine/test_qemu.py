"""Which accelerators are tried, and how often, until a kernel in QEMU greets; names that its first programs know."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from lab.errors import MachineLost
from lab.machine import Host, kernel_init, opening, parse_target, qemu
from lab.machine.embedded import EmbeddedKernel, EmbeddedOptions
from lab.machine.root_images import AGENT_FOLDER
from lab.machine.stock_kernels import INIT_VARIABLE

CRASH = "the embedded kernel crashed: [ 4.4] Kernel panic - not syncing: Fatal exception / [ 4.4] Oops: int3: 0000 [#1]"
OTHER = "the embedded kernel crashed: [ 1.0] Kernel panic - not syncing: VFS: Unable to mount root fs"
GREETED = ""
KVM, RACE = "KVM does not work here", "a race in QEMU before 8.1"


@pytest.mark.parametrize(
    ("accelerators", "results", "tried", "notices", "is_started"),
    [
        (["kvm", "tcg"], [GREETED], ["kvm"], [], True),
        (["kvm", "tcg"], [OTHER, GREETED], ["kvm", "tcg"], [KVM], True),
        (["kvm"], [OTHER], ["kvm"], [], False),
        (["tcg"], [CRASH, GREETED], ["tcg", "tcg"], [RACE], True),
        (["tcg"], [CRASH, CRASH, CRASH], ["tcg", "tcg", "tcg"], [RACE, RACE], False),
        (["tcg"], [OTHER], ["tcg"], [], False),
        (["tcg"], [CRASH, OTHER], ["tcg", "tcg"], [RACE], False),
        (["kvm", "tcg"], [CRASH, CRASH, GREETED], ["kvm", "tcg", "tcg"], [KVM, RACE], True),
    ],
)
def test_starts_are_repeated_with_tcg_and_after_a_race_of_the_emulator_only(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    accelerators: list[str],
    results: list[str],
    tried: list[str],
    notices: list[str],
    is_started: bool,
) -> None:
    starts: list[str] = []
    left = iter(results)

    def start(_options: object, _asked: object, accelerator: str, *_: object) -> tuple[None, None]:
        starts.append(accelerator)
        return None, None

    def greet(*_: object) -> None:
        if message := next(left):
            raise MachineLost(message, hint="run it again")

    monkeypatch.setattr(opening, "accelerators", lambda *_: accelerators)
    monkeypatch.setattr(opening, "start_qemu", start)
    monkeypatch.setattr(opening, "_greet", greet)
    monkeypatch.setattr(qemu, "_failure_note", lambda: tmp_path / "kvm-failed")
    shown: list[str] = []
    with nullcontext() if is_started else pytest.raises(MachineLost, match="crashed"):
        opening._open_qemu(parse_target("qemu:"), Host.real("test"), EmbeddedOptions(), shown.append)
    assert starts == tried
    assert len(shown) == len(notices)
    assert all(notice.startswith(beginning) for notice, beginning in zip(shown, notices, strict=True))
    assert (tmp_path / "kvm-failed").exists() == (KVM in notices)


def test_the_error_of_a_kernel_that_does_not_greet_has_its_console() -> None:
    channel = Mock(wait_hello=Mock(side_effect=MachineLost("the machine did not answer")))
    started = Mock(spec=EmbeddedKernel, console_tail=lambda: "its last words")
    with pytest.raises(MachineLost) as lost:
        opening._greet(parse_target("qemu:"), started, channel)
    assert lost.value.console == "its last words"
    started.release.assert_called_once_with(has_left=False)


def test_the_first_programs_know_the_names_on_the_command_line() -> None:
    folder = Path(qemu.__file__).parent
    python, stock, root = ((folder / name).read_text("utf-8") for name in ("qemu.py", "stock_init.sh", "root_init.sh"))
    ((serial,), (tag,), (parameter,)) = (
        re.findall(pattern, python) for pattern in (r"serial=([A-Z]+)", r"mount_tag=(\w+)", r"md_mod\.(\w+=\w+)")
    )
    assert f'" = {serial} ] && root=' in root
    assert f"cp -a /agent /root{AGENT_FOLDER}\n" in root
    assert f" {tag} /root " in stock
    assert f" option={parameter} " in stock
    assert kernel_init.STOCK_INIT == INIT_VARIABLE
    assert all(program.endswith(f' "${INIT_VARIABLE}"\n') for program in (stock, root))
