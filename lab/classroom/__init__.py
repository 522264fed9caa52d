"""Bundles, results as signed files that go from one computer to another, and what a folder of them says together."""

from lab.parts import Part

PART = Part(
    commands=(
        ("class", "lab.classroom.command:classroom", "A folder of bundles: what a class measured."),
        ("handout", "lab.classroom.handout:handout", "Pages to print: keys, lessons."),
    ),
    adds={
        "results in .zip": "lab.classroom.bundle:read_bundle",
        "results in a file": "lab.classroom.bundle:read_bundle",
        "export": "lab.classroom.command:export",
        "lost in drills": "lab.classroom.losses:lost_in_drills",
        "export file": "lab.classroom.bundle:export_results",
    },
)
