"""What a fleet of arrays loses over years, by Monte Carlo, from measured rebuilds and published lives of drives."""

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
