"""mdadm's own test suite in the embedded kernel: what passes, what fails as upstream knows, what fails otherwise."""

from lab.parts import Part

PART = Part(
    commands=(
        ("md-tests", "lab.md_tests.command:md_tests", "Run mdadm's own test suite, without harm to this computer."),
    ),
)
