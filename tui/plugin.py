"""The app as a plugin for the command line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from lab.frontend import AppFrontend
from lab.plugins import Plugin

if TYPE_CHECKING:
    from lab.frontend import ReadVerb, RunLine


def _app() -> Callable[[str | None], int]:
    from tui.app import main

    return main


def _text() -> Callable[[str | None, RunLine, Collection[str], ReadVerb], int]:
    from tui.text import main

    return main


def _serve(on: str | None, port: int, on_ready: Callable[[str], None]) -> None:
    from tui.serve import serve

    serve(on, port=port, on_ready=on_ready)


def _key_card() -> Sequence[object]:
    from tui.key_card import key_card

    return key_card()


PLUGIN = Plugin((AppFrontend(_app, _text, _serve, _key_card),))
