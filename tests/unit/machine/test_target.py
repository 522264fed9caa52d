from __future__ import annotations

import re

import pytest

from lab.errors import SpecError
from lab.gates.text import is_name
from lab.machine.target import TargetKind, parse_target, target_words


@pytest.mark.parametrize(
    ("text", "kind", "host", "options"),
    [
        ("uml:", TargetKind.UML, "", {}),
        ("UML:", TargetKind.UML, "", {}),
        ("uml:?time=virtual&mem=1G", TargetKind.UML, "", {"time": "virtual", "mem": "1G"}),
        ("local:", TargetKind.LOCAL, "", {}),
        ("ssh:root@lab1", TargetKind.SSH, "root@lab1", {}),
        ("vagrant:", TargetKind.VAGRANT, "", {}),
        ("vagrant:raidlab2", TargetKind.VAGRANT, "raidlab2", {}),
        ("ssh:a@b?port=22&identity=/k/a+b%20c", TargetKind.SSH, "a@b", {"port": "22", "identity": "/k/a+b c"}),
    ],
)
def test_targets_are_read(text: str, kind: TargetKind, host: str, options: dict[str, str]) -> None:
    target = parse_target(text)
    assert (target.kind, target.host, target.options) == (kind, host, options)
    assert str(target) == text


def test_a_missing_colon_is_accepted_with_options() -> None:
    assert str(parse_target("uml?mem=1G")) == "uml:?mem=1G"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("ulm:", "'ulm:' is not a target", "did you mean 'uml:'?"),
        ("ssh:", "does not name a host", "ssh:HOST"),
        ("ssh:-oProxyCommand=x", "does not name a host", "ssh:HOST"),
        ("local:here", "does not accept a host", "write 'local:' alone"),
        ("vagrant:--debug", "does not name a machine", "vagrant:NAME"),
        ("vagrant:?port=22", "unknown option 'port'", "options of vagrant: are none"),
        ("uml:?nam=x", "unknown option 'nam'", "did you mean 'name'?"),
        ("uml:?virtual", "unknown option 'virtual'", "options of uml:"),
        ("uml:?time=fast", "time cannot be 'fast'", "time=real or time=virtual"),
        ("uml:?name=../x", "cannot be the name of a lab", "letters"),
        ("uml:?name=", "cannot be the name of a lab", "letters"),
        ("ssh:h?port=http", "is not a port", "65535"),
        ("ssh:h?port=70000", "is not a port", "65535"),
        (f"ssh:h?port={'9' * 5000}", "is not a port", "65535"),
        ("uml:?mem=99999999T", "is not possible", "at most"),
        (f"uml:?name={'a' * 129}", "cannot be the name of a lab", "letters"),
        ("qemu:?cpus=0", "cpus cannot be '0'", "from 1 to 64"),
        ("qemu:?accel=xen", "accel cannot be 'xen'", "kvm or tcg"),
        ("qemu:?memory=much", "memory 'much' is not a size", "K, M, G or T"),
        ("qemu:host", "does not accept a host", "write 'qemu:' alone"),
        ("qemu:?time=virtual", "unknown option 'time'", "options of qemu:"),
        ("uml:?mdadm=", "mdadm needs a version or folder", "mdadm=4.4"),
        ("qemu:?root=arm64&kernel=6.1", "a root image has its own kernel", "omit kernel=, or root="),
        ("qemu:?root=arm64&show=/etc", "cannot see this computer's files", "omit show=, or root="),
        ("qemu:?root=arm64&show=/etc&kernel=6", "a root image has its own kernel", "omit kernel and show=, or root="),
        ("ssh:h?identity=a%00b", "is not a target", "control characters"),
        ("ssh:h\x1b[2J", "is not a target", "control characters"),
    ],
)
def test_an_invalid_target_is_rejected_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError, match=f"{re.escape(message)}.*\n.*{re.escape(hint)}"):
        parse_target(text)


def test_labs_of_machines_with_long_names_have_distinct_names() -> None:
    names = {parse_target(f"ssh:{'h' * 200}{number}").lab_name for number in (1, 2)}
    assert len(names) == 2
    assert all(is_name(name) for name in names)


@pytest.mark.parametrize(
    ("text", "words", "short"),
    [
        ("uml:", "embedded kernel", "embedded"),
        ("uml:?name=x&time=virtual", "embedded kernel, lab 'x', virtual time", "embedded"),
        ("qemu:?root=arm64", "root image arm64", "root image arm64"),
        ("local:", "local:", "local:"),
        ("ssh:root@lab1?port=22&identity=/k", "ssh:root@lab1", "ssh:root@lab1"),
        ("no target", "no target", "no target"),
    ],
)
def test_wording_of_targets(text: str, words: str, short: str) -> None:
    assert target_words(text) == words
    assert target_words(text, is_short=True) == short
