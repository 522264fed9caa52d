"""Arrays of unequal disks: AdaptRaid5 as arithmetic, made of md arrays under one device-mapper table, and measured."""

from lab.parts import Part

PART = Part(
    commands=(
        (
            "array capacity",
            "lab.adapt.command:capacity",
            "Show what disks of different sizes hold under each system; nothing is touched.",
        ),
    ),
    adds={
        "kind of array": "lab.adapt.kind:ADAPT",
        "reading of lessons": "lab.adapt.reading:Capacity",
        "tables of adaptraid": "lab.adapt.study.tables:tables",
        "plots of adaptraid": "lab.adapt.study.plots:by_fast_disks",
    },
)
