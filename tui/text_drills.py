"""Drills in lines: ``drill`` with the words of ``raidlab drill``, done in the lab that is open."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab.drills.verbs import (
    VERBS,
    ClearDisks,
    Commit,
    Debrief,
    DrillHint,
    DrillStatus,
    LeaveDrill,
    ListDrills,
    ResetDrill,
    StartDrill,
)
from lab.errors import LabError
from tui.drills import Drills

if TYPE_CHECKING:
    from lab.actions.action import Verb
    from lab.drills.case import DrillOutcome
    from tui.drills import DrillView
    from tui.line_frontend import LineFrontend

DRILL_HELP = """\
drill list        disasters to practise on, with what you have reached
drill start 1     set one up on blank disks; --seed WORD makes another case of it, --again begins anew
drill status      what you were told, the hints you took, and how the drill stands; drill alone does it too
! LINE            run LINE as root on the machine, as an administrator would
hint              one more hint; it costs nothing, and is noted
commit            from now on you write on the disks themselves
reset             the disks as they were when the drill began
debrief           end the drill: the verdict on the data, and what an expert would have done;
                  --as-it-is also where no array runs that has the data
leave             give the drill up, without a verdict
drill debrief latest    the last debriefing once more
drill clear       make the disks blank that the last drill used
raidlab lines that change arrays act here too. Others open the machine anew: arrays and overlays are gone then, as
after a power cut."""
SHORT_WORDS = {each.short_name() for each in VERBS if each.key} - {ClearDisks.short_name(), StartDrill.short_name()}
"""Verbs that an open drill obeys without ``drill`` in front."""
_AGAIN = "start the array first; debrief once more ends the drill as it is"
_MAKING = "The drill is being set up. Its description follows in a moment."


class TextDrills:
    """Drills in the text mode."""

    def __init__(self, app: LineFrontend, drills: Drills) -> None:
        self._app, self._drills = app, drills
        self.is_making = False
        """A drill is being set up: nothing is shown or obeyed, so that the student does not see how it is made."""
        drills.on_making, drills.on_open = self._making, self._opened

    @property
    def next_step(self) -> str | None:
        """Markup; None: no drill is open."""
        return self._drills.hint_line()

    def obey(self, verb: Verb) -> bool:
        """Do what it says in the lab that is open; False for what only the command line does."""
        match verb:
            case ListDrills():
                self._list()
            case StartDrill(reset=False, exam=None):
                self._start(verb)
            case ClearDisks():
                self._clear()
            case Debrief(name=str(name)):
                self._show_again("" if name == "latest" else name)
            case DrillStatus() | DrillHint() | Commit() | ResetDrill() | Debrief() | LeaveDrill():
                if self._is_open():
                    self._do(verb)
            case _:
                return False
        return True

    def _do(self, verb: Verb) -> None:
        """In the drill that is open."""
        match verb:
            case DrillHint():
                self._hint()
            case Commit():
                self._drills.commit(self._committed)
            case ResetDrill():
                self._reset()
            case Debrief():
                self._debrief(verb)
            case LeaveDrill():
                self._drills.leave(partial(self._app.say, "The drill is closed."))
            case _:
                self._status()

    def show(self) -> None:
        """The open drill; without one, all drills."""
        if self._drills.view:
            self._status()
        else:
            self._list()

    @property
    def is_open(self) -> bool:
        """Whether a drill is."""
        return self._drills.view is not None

    def show_making(self) -> None:
        """The answer to every line meanwhile."""
        self._app.say(_MAKING)

    def _is_open(self) -> bool:
        if self._drills.view is None:
            self._app.say("No drill is open in this lab. drill list shows the drills, drill start 1 sets one up.")
        return self._drills.view is not None

    def _list(self) -> None:
        def tell() -> None:
            for item in self._drills.items:
                standing = "open now" if item.is_open else item.standing
                self._app.say(
                    f"{item.number}: {item.title} ({item.minutes} minutes). {standing[0].upper()}{standing[1:]}."
                )
            is_open = self._drills.view is not None
            self._app.say("drill status shows the open one." if is_open else "drill start 1 sets up the first.")

        self._drills.open(tell)

    def _start(self, verb: StartDrill) -> None:
        view = self._drills.view
        if view and not verb.again:
            self._app.say(f"Drill {view.number} is open. drill debrief ends it, drill leave gives it up.")
        else:
            self._tell_foreign(verb.name)
            own = view.seed if view else None
            self._drills.begin(verb.name, own if verb.seed is None else verb.seed)

    def _tell_foreign(self, name: str) -> None:
        if name.endswith(".toml"):
            from lab.drills.schema import foreign_drill

            # Problems of the file are reported when it is started.
            with suppress(LabError):
                if note := foreign_drill(Path(name)):
                    self._app.say(f"{note}.")

    def _making(self, is_making: bool) -> None:
        self.is_making = is_making
        if is_making:
            self.show_making()

    def _opened(self, is_new: bool) -> None:
        view = self._drills.view
        if view is None:
            return
        if is_new:
            self._app.show_page(f"{view.briefing}\n{view.rules}")
            self._app.say("Here: ! LINE runs LINE as root on the machine. drill help lists all words.")
        else:
            self._app.say(f"Drill {view.number}, {view.title}, goes on.")
        if not self._app.is_first_look:
            self._app.say(self._app.next_line())

    def _status(self) -> None:
        view = self._drills.view
        if view is None:
            return
        self._app.show_page("\n\n".join([view.briefing, *view.hints]))
        for label, text in view.standing:
            self._app.say(f"{label}: {text}.")

    def _hint(self) -> None:
        view = self._drills.view
        if view and view.has_more_hints:
            self._drills.hint()
            self._app.show_page(self._newest_hint(self._drills.view))
        else:
            self._app.say("There are no more hints. drill status shows all of them.")

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

    def _clear(self) -> None:
        if self._drills.left is None:
            self._app.say("No drill has left anything on this lab's disks.")
        else:
            self._drills.clear(partial(self._app.say, "The drill's disks are blank."))

    def _debrief(self, verb: Debrief) -> None:
        self._app.say("The data are being read.")
        array = verb.array.removeprefix("/dev/")
        self._drills.debrief(self._debriefed, array=array, as_it_is=verb.as_it_is, again=_AGAIN)

    def _debriefed(self, outcome: DrillOutcome) -> None:
        self._app.show_page(self._drills.page)
        # The first lines of a long page may be out of sight by now.
        self._app.say(f"The drill has ended: {outcome.verdict}, {outcome.saved_percent:g} % of the data.")
        self._app.say("drill clear makes the drill's disks blank.")
        self._app.say("drill debrief latest shows this page once more; drill list shows what you have reached.")

    def _show_again(self, word: str) -> None:
        host = self._app.client.host

        def read() -> str:
            from lab.drills.case import DrillStore
            from lab.drills.telling import ended_page

            return ended_page(DrillStore(host).newest(word))

        self._app.beside("debriefing", read, on_done=self._app.show_page)
