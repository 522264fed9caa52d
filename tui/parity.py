"""What each key of the app is on the command line: the app can do nothing that ``raidlab`` cannot.

A new key stands in one of the two tables; a test walks all screens and looks every command up.
"""

from __future__ import annotations

from tui.actions import ACTIONS
from tui.registry import SCREENS

DOES: dict[str, str] = {
    **{action.id: action.cli for action in ACTIONS},
    "lab.build": "array create",
    "clock.step": "array wait",
    "welcome.build": "array create",
    "build.create": "array create",
    "build.larger": "disks add",
    "plan.run": "array create",
    **dict.fromkeys(("commands.terminal", "commands.terminal-too"), "shell"),
    "results.allow": "compare",
    "results.delete": "results delete",
    "results.export": "export",
    "results.resume": "run",
    "run.start": "run",
    "run.stop": "run",
    **{f"lessons.answer-{letter}": "lesson answer" for letter in "abcdef"},
    "lessons.number": "lesson answer",
    "lessons.hint": "lesson hint",
    "lesson.hint": "lesson hint",
    "lessons.measure": "lesson measure",
    "lessons.stop-measuring": "lesson measure",
    "lessons.do": "lesson do",
    "lessons.again": "lesson reset",
    "lessons.language": "lesson start",
    "lessons.variant": "lesson start",
    "lessons.leave": "lesson leave",
    **{f"drills.{name}": f"drill {name}" for name in ("hint", "commit", "reset", "debrief", "leave")},
    "drills.variant": "drill start",
    **dict.fromkeys(("stripe.flip", "stripe.write", "stripe.crash", "stripe.really"), "array inspect"),
    **dict.fromkeys(("stripe.check", "stripe.repair"), "array scrub"),
    "faults.run": "fault run",
    "faults.stop": "fault run",
    **dict.fromkeys(("fleet.more", "fleet.less"), "fleet"),
}
"""Binding id -> the words after ``raidlab`` that do the same."""

VIEWS = frozenset(
    {
        *(f"{place}{entry.mode}" for entry in SCREENS for place in ("app.", "welcome.to-")),
        *("app.help", "app.palette", "app.theme", "app.restart", "app.quit", "app.explain", "app.leave"),
        *("clock.pause", "clock.faster", "clock.slower"),
        *("lab.next", "lab.previous", "lab.charts", "arrays.open"),
        *("rack.up", "rack.down", "rack.left", "rack.right", "rack.first", "rack.last"),
        *("rack.open", "rack.toggle", "rack.choose-free", "rack.choose-none"),
        *("choices.up", "choices.down", "choices.before", "choices.next"),
        *("build.copy", "build.what-if", "build.level", "build.next-level", "build.next", "build.previous"),
        *("results.view", "results.mark", "results.reload", "results.next", "results.previous"),
        *("results.left", "results.right"),
        *("run.duration", "run.next", "run.previous"),
        *("plan.page-up", "plan.page-down", "plan.copy", "plan.cancel", "plan.next", "plan.previous"),
        *("help.close", "menu.cancel", "welcome.close", "welcome.next", "welcome.previous"),
        *("commands.all", "commands.copy", "commands.copy-all", "commands.full", "commands.leave"),
        *("terminal.leave", "terminal.leave-too", "terminal.full", "terminal.older", "terminal.newer"),
        *("lesson.large", "lesson.next", "lessons.next", "lesson.up", "lesson.down", "lessons.up", "lessons.down"),
        *("variant.cancel", "number.cancel", "place.cancel", "byte.cancel"),
        *("drills.time", "drills.last", "drills.back", "drills.down", "drills.up", "debriefing.close"),
        "fleet.reset",
        *("faults.about", "faults.next", "faults.previous"),
        *("stripe.next", "stripe.before", "stripe.far-next", "stripe.far-before", "stripe.down", "stripe.up"),
        *("stripe.page-down", "stripe.page-up", "stripe.member", "stripe.member-before", "stripe.go", "stripe.array"),
        *("stripe.difference", "stripe.verdict", "stripe.words"),
    }
)
"""Bindings that only look, choose or leave."""

KNOWN_IDS = frozenset(DOES) | VIEWS
