"""What a lesson does by itself, as the command that a student would type."""

from __future__ import annotations

import pytest

from lab.lessons.course import make_action


@pytest.mark.parametrize(
    ("written", "command"),
    [
        (
            {
                "act": "array.create",
                "level": "raid1",
                "disks": "disk01,disk02",
                "bitmap": "internal",
                "bitmap_chunk": "1M",
            },
            "raidlab array create md0 --level raid1 --disks disk01,disk02 --bitmap internal --bitmap-chunk 1M",
        ),
        (
            {
                "act": "array.create",
                "level": "raid5",
                "disks": "disk01,disk02,disk03",
                "chunk": "64K",
                "spares": "disk04",
            },
            "raidlab array create md0 --level raid5 --disks disk01,disk02,disk03 --spares disk04 --chunk 64K",
        ),
        ({"act": "array.fail", "disk": "disk02", "break_array": True}, "raidlab array fail md0 disk02 --break-array"),
        ({"act": "array.scrub", "repair": True}, "raidlab array scrub md0 repair"),
        ({"act": "measure", "measure": "depth"}, "raidlab lesson measure depth"),
    ],
)
def test_an_action_knows_its_command(written: dict[str, object], command: str) -> None:
    assert make_action(written, where="test").by_hand() == command
