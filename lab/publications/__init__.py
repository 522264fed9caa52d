"""The lint of what studies published: their texts, and recipes of shell commands."""

from lab.parts import Part

PART = Part(
    adds={
        "lint .sh": "lab.publications.recipes:lint_script_file",
        "lint publication": "lab.publications.checks:lint_study",
        "publications": "lab.publications.checks:built_in_names",
    }
)
