"""Sweeps: one experiment over many combinations, its cells measured side by side on a cluster."""

from lab.parts import Part

PART = Part(
    commands=(("sweep", "lab.sweep.command:sweep", "An experiment over many combinations, on any cluster."),),
    adds={
        "calls on a cluster": "lab.sweep.calls:calls_on",
        "report of a sweep": "lab.sweep.report:report_sweep",
        "desk of sweeps": "lab.sweep.desk:SweepDesk",
    },
)
