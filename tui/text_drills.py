"""Drills in lines: ``drill`` with the words of ``raidlab drill``, done in the lab that is open."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tui.drills import Drills

if TYPE_CHECKING:
    from lab.drills.case import DrillOutcome
    from tui.drills import DrillView
    from tui.text import TextApp

DRILL_HELP = """\
drill list        disasters to practise on, with what you have reached
drill start 1     make one on blank disks; --seed WORD makes another case of it, --again begins anew
drill status      what you were told, the hints you took, and how the drill stands; drill alone does it too
! LINE            run LINE as root on the machine, as an administrator would
hint              one more hint; it costs nothing, and is noted
commit            from now on you write on the disks themselves
reset             the disks as they were when the drill began
debrief           end the drill: the verdict on the data, and what an expert would have done
leave             give the drill up, without a verdict
drill debrief latest    the last debriefing once more
Other raidlab lines open the machine anew: arrays and overlays are gone then, as after a power cut."""
_MAKING = "The disaster is being made. In a moment you are called."
_OPTIONS = {"start": ("--seed",), "debrief": ("--array",)}
"""Those with a word after them."""


class TextDrills:
    """The administrator's desk, for whoever reads lines."""

    def __init__(self, app: TextApp, drills: Drills) -> None:
        self._app, self._drills = app, drills
        self.is_making = False
        """Then nothing is told, and nothing obeyed: how a disaster is made is not to be seen."""
        self._in_drill: dict[str, Callable[[], object]] = {
            "status": self._status,
            "hint": self._hint,
            "commit": partial(drills.commit, self._committed),
            "reset": self._reset,
            "leave": partial(drills.leave, partial(app.say, "The drill is closed.")),
        }
        drills.on_making, drills.on_open = self._making, self._opened

    @property
    def next_step(self) -> str | None:
        """Markup; None: no drill is open."""
        return self._drills.hint_line()

    def obey(self, words: str) -> bool:
        """Do what stands after ``drill``; False for what is not understood here."""
        found = _parsed(words)
        if found is None:
            return False
        verb, name, options = found
        always: dict[str, Callable[[], object]] = {
            "": self._status if self._drills.view else self._list,
            "list": self._list,
            "help": partial(self._app.say, DRILL_HELP),
        }
        if verb == "start" and name:
            self._start(name, options)
        elif verb == "debrief":
            self._debrief(name, options.get("--array", ""))
        elif name or options or not (verb in always or verb in self._in_drill):
            return False
        elif verb in always:
            always[verb]()
        elif self._is_open():
            self._in_drill[verb]()
        return True

    def takes(self, word: str) -> bool:
        """Whether a drill is open that obeys this word by itself."""
        return self._drills.view is not None and (word == "debrief" or word in self._in_drill)

    def tell_making(self) -> None:
        """Instead of whatever was asked."""
        self._app.say(_MAKING)

    def _is_open(self) -> bool:
        if self._drills.view is None:
            self._app.say("No drill is open in this lab. drill list tells which there are, drill start 1 makes one.")
        return self._drills.view is not None

    def _list(self) -> None:
        def tell() -> None:
            for item in self._drills.items:
                standing = "open now" if item.is_open else item.standing
                self._app.say(
                    f"{item.number}: {item.title} ({item.minutes} minutes). {standing[0].upper()}{standing[1:]}."
                )
            is_open = self._drills.view is not None
            self._app.say("drill status tells of the open one." if is_open else "drill start 1 makes the first.")

        self._drills.open(tell)

    def _start(self, name: str, options: dict[str, str]) -> None:
        view = self._drills.view
        if view and "--again" not in options:
            self._app.say(f"Drill {view.number} is open. drill debrief ends it, drill leave gives it up.")
        else:
            self._drills.begin(name, options.get("--seed", view.seed if view else None))

    def _making(self, is_making: bool) -> None:
        self.is_making = is_making
        if is_making:
            self.tell_making()

    def _opened(self, is_new: bool) -> None:
        view = self._drills.view
        if view is None:
            return
        if is_new:
            self._app.tell_page(f"{view.briefing}\n{view.rules}")
            self._app.say("Here: ! LINE runs LINE as root on the machine. drill help tells all words.")
        else:
            self._app.say(f"Drill {view.number}, {view.title}, goes on.")
        if not self._app.is_first_look:
            self._app.say(self._app.next_line())

    def _status(self) -> None:
        view = self._drills.view
        if view is None:
            return
        self._app.tell_page("\n\n".join([view.briefing, *view.hints]))
        for label, text in view.standing:
            self._app.say(f"{label}: {text}.")

    def _hint(self) -> None:
        view = self._drills.view
        if view and view.has_more_hints:
            self._drills.hint()
            self._app.tell_page(self._newest_hint(self._drills.view))
        else:
            self._app.say("There are no more hints. drill status tells all of them.")

    @staticmethod
    def _newest_hint(view: DrillView | None) -> str:
        return view.hints[-1] if view and view.hints else ""

    def _committed(self, touched_bytes: int) -> None:
        from lab.drills.telling import committed_words

        self._app.say(f"{committed_words(touched_bytes)}.")

    def _reset(self) -> None:
        from lab.drills.telling import PUT_BACK

        self._app.say("The disks are being put back.")
        self._drills.reset(lambda _: self._app.say(f"{PUT_BACK}."))

    def _debrief(self, name: str, array: str) -> None:
        if name:
            self._tell_again("" if name == "latest" else name)
        elif self._is_open():
            self._app.say("The data are being read.")
            self._drills.debrief(self._debriefed, array=array.removeprefix("/dev/"))

    def _debriefed(self, outcome: DrillOutcome) -> None:
        self._app.tell_page(self._drills.page)
        # The first lines of a long page may be out of sight by now.
        self._app.say(f"The drill has ended: {outcome.verdict}, {outcome.saved_percent:g} % of the data.")
        self._app.say("drill debrief latest tells this page once more; drill list tells what you have reached.")

    def _tell_again(self, word: str) -> None:
        host = self._app.client.host

        def read() -> str:
            from lab.drills.case import DrillStore
            from lab.drills.telling import ended_page

            return ended_page(DrillStore(host).newest(word))

        self._app.beside("debriefing", read, on_done=self._app.tell_page)


def _parsed(words: str) -> tuple[str, str, dict[str, str]] | None:
    """Verb, name and options; None for what this does not know."""
    try:
        verb, *rest = shlex.split(words) or [""]
    except ValueError:
        return None
    names: list[str] = []
    options: dict[str, str] = {}
    following = iter(rest)
    for word in following:
        option, equals, value = word.partition("=")
        if option in _OPTIONS.get(verb, ()):
            options[option] = value if equals else next(following, "")
        elif (verb, word) == ("start", "--again"):
            options[word] = ""
        elif word.startswith("-"):
            return None
        else:
            names.append(word)
    return (verb, "".join(names), options) if len(names) <= 1 else None
