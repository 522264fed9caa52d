"""What is typed on the Stripe screen: where to look next, and which byte to flip."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.screens.menu import TypedScreen


class PlaceScreen(TypedScreen):
    """Where to look next."""

    AREA = "Place"
    HELP = (
        "A number is a stripe. block 33744 is a block of 4 KiB of the array, disk03@4100 a sector of a disk. Anything "
        "else is a file: a path on the machine, or one on the array's own file system, which is mounted read-only."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="place.cancel", tooltip="Close; nothing is changed"),
    ]
    TITLES = ("Go to", "Enter goes there, Esc closes")
    PLACEHOLDER = "703, block 33744, disk03@4100, or a file"
    MOST_LETTERS = 200


class ByteScreen(TypedScreen):
    """Which byte to flip."""

    AREA = "Byte"
    HELP = "A disk and a byte of its chunk in this stripe. The commands are shown before anything is changed."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="byte.cancel", tooltip="Close; nothing is changed"),
    ]
    TITLES = ("Flip a byte", "Enter shows the commands, Esc closes")
    PLACEHOLDER = "disk03:17"
    MOST_LETTERS = 80
