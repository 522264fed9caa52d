"""Data loss of a fleet of arrays over years: Monte Carlo from measured rebuilds and published drive lives."""

from lab.parts import Part

PART = Part(
    commands=(
        ("fleet", "lab.fleet.command:fleet", "How often a fleet of arrays loses data over years, and how much."),
    ),
    adds={
        "reading of lessons": "lab.fleet.reading:FleetReading",
        "what if of fleets": "lab.fleet.what_if:what_if",
        "measured rebuilds": "lab.fleet.measured:measured_rebuilds",
    },
)
