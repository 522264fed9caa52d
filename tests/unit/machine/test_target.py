from __future__ import annotations

import pytest

from lab.errors import SpecError
from lab.machine.target import TargetKind, parse_target


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


def test_a_missing_colon_is_forgiven_and_options_are_kept() -> None:
    assert str(parse_target("uml?mem=1G")) == "uml:?mem=1G"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("ulm:", "'ulm:' is not a target", "did you mean 'uml:'?"),
        ("ssh:", "names no host", "ssh:HOST"),
        ("ssh:-oProxyCommand=x", "names no host", "ssh:HOST"),
        ("local:here", "takes no host", "local: alone"),
        ("vagrant:--debug", "names no machine", "vagrant:NAME"),
        ("vagrant:?port=22", "unknown option 'port'", "options of vagrant: are none"),
        ("uml:?nam=x", "unknown option 'nam'", "did you mean 'name'?"),
        ("uml:?virtual", "unknown option 'virtual'", "options of uml:"),
        ("uml:?time=fast", "time is 'fast'", "real or virtual"),
        ("uml:?name=../x", "cannot be the name of a lab", "letters"),
        ("uml:?name=", "cannot be the name of a lab", "letters"),
        ("ssh:h?port=http", "is not a port", "65535"),
    ],
)
def test_what_is_no_target_says_what_is(text: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_target(text)
    assert message in refused.value.message
    assert hint in refused.value.hint
