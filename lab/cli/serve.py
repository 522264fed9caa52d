"""``raidlab serve``: the app in a browser, on loopback."""

from __future__ import annotations

from typing import Annotated

from lab.cli.arguments import number
from lab.cli.context import current, options
from lab.cli.output import err, out
from lab.errors import ToolMissing
from lab.frontend import AppFrontend
from lab.gates.decoding import PortOrAny
from lab.plugins import extension


def serve(
    *,
    port: Annotated[int, number(PortOrAny, help="Port on the loopback interface; 0: any that is free.")] = 8642,
) -> None:
    """The app in a browser: on loopback only, at an address with a random token that is printed.

    Each tab that opens the address has an app of its own. Ctrl-C ends it. From another computer: ``ssh -L``.
    """
    app = extension(AppFrontend)
    if app is None:
        raise ToolMissing("the app is not installed", hint="install raidlab with its package tui")

    current()

    def ready(address: str) -> None:
        err("raidlab: open this address in a browser on this computer; Ctrl-C ends it")
        out(address)

    app.serve(options().on, port, ready)
