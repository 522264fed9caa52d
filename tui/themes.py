"""The app's themes. No other module has colours; screens and widgets use the names that the themes define.

Text on ``background``, ``surface`` and ``panel`` has a contrast of 4.5 or more in each theme, 7 or more in high
contrast (WCAG 2.1, success criteria 1.4.3 and 1.4.6); a test computes it.
"""

from __future__ import annotations

from rich.terminal_theme import TerminalTheme
from textual.theme import Theme

_MARKED = {"block-cursor-text-style": "bold", "button-focus-text-style": "bold underline"}


def _scrollbar(bar: str, *, moved: str, track: str) -> dict[str, str]:
    """Theme variables for scroll bars; ``moved`` is the colour under the mouse and while dragged."""
    tracks = ("background", "background-hover", "background-active", "corner-color")
    return {
        "scrollbar": bar,
        "scrollbar-hover": moved,
        "scrollbar-active": moved,
        **{f"scrollbar-{part}": track for part in tracks},
    }


DARK = Theme(
    name="raidlab-dark",
    primary="#6cb6ff",
    secondary="#8b9fb8",
    accent="#ffb454",
    success="#7ee787",
    warning="#f2cc60",
    error="#ff7b72",
    foreground="#d6dde6",
    background="#0d1117",
    surface="#131a22",
    panel="#1c2530",
    dark=True,
    variables={
        "border": "#3d4c5e",
        "border-blurred": "#2d3947",
        "footer-background": "#131a22",
        "footer-key-foreground": "#ffb454",
        "block-cursor-background": "#2c4a6b",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-blurred-background": "#1f2f42",
        **_MARKED,
        **_scrollbar("#3d4c5e", moved="#5b7088", track="#131a22"),
        "input-selection-background": "#2c4a6b",
    },
)
LIGHT = Theme(
    name="raidlab-light",
    primary="#0a5bb5",
    secondary="#57667a",
    accent="#a04e00",
    success="#166c2c",
    warning="#7d5500",
    error="#b51f1f",
    foreground="#1d2733",
    background="#fbfcfd",
    surface="#f1f4f8",
    panel="#e4eaf1",
    dark=False,
    variables={
        "border": "#9aa9bb",
        "border-blurred": "#c3cdd9",
        "footer-background": "#f1f4f8",
        "footer-key-foreground": "#a04e00",
        "block-cursor-background": "#bcd7f5",
        "block-cursor-foreground": "#0b1520",
        "block-cursor-blurred-background": "#dbe8f6",
        **_MARKED,
        **_scrollbar("#9aa9bb", moved="#72859b", track="#e4eaf1"),
        "input-selection-background": "#bcd7f5",
    },
)
HIGH_CONTRAST = Theme(
    name="raidlab-high-contrast",
    primary="#7fd4ff",
    secondary="#ffffff",
    accent="#ffd400",
    success="#5dff5d",
    warning="#ffd400",
    error="#ff9a9a",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1a1a1a",
    dark=True,
    text_alpha=1.0,
    variables={
        "border": "#ffffff",
        "border-blurred": "#c0c0c0",
        "footer-background": "#000000",
        "footer-key-foreground": "#ffd400",
        "block-cursor-background": "#ffd400",
        "block-cursor-foreground": "#000000",
        "block-cursor-blurred-background": "#404040",
        **_MARKED,
        **_scrollbar("#ffffff", moved="#ffd400", track="#1a1a1a"),
        "input-selection-background": "#005f87",
    },
)
THEMES = (DARK, LIGHT, HIGH_CONTRAST)


def _sixteen(theme: Theme, black: str, white: str, *others: str) -> TerminalTheme:
    """The sixteen colours of a terminal, for a theme.

    ``others`` are red, green, yellow, blue, magenta and cyan, then bright black and bright white, then the six bright
    colours.
    """
    plain, (bright_black, bright_white), bright = others[:6], others[6:8], others[8:]

    def triplets(*colours: str) -> list[tuple[int, int, int]]:
        return [(int(each[1:3], 16), int(each[3:5], 16), int(each[5:], 16)) for each in colours]

    foreground, background = triplets(str(theme.foreground), str(theme.background))
    return TerminalTheme(
        background, foreground, triplets(black, *plain, white), triplets(bright_black, *bright, bright_white)
    )


TERMINAL_DARK = _sixteen(
    DARK, "#3d4c5e", "#d6dde6",
    "#ff7b72", "#7ee787", "#f2cc60", "#6cb6ff", "#d2a8ff", "#76e3ea",
    "#8b9fb8", "#ffffff",
    "#ffa198", "#a5f3b0", "#ffe08a", "#9ccfff", "#e2c5ff", "#b3f0f5",
)  # fmt: skip
"""The sixteen colours of programs in the terminal, on a dark background."""
TERMINAL_LIGHT = _sixteen(
    LIGHT, "#1d2733", "#57667a",
    "#b51f1f", "#166c2c", "#7d5500", "#0a5bb5", "#7a2fa0", "#0b6a75",
    "#57667a", "#1d2733",
    "#9c1111", "#0f5a23", "#6b4800", "#084a94", "#662488", "#095761",
)  # fmt: skip
"""The same on a light background; all are dark enough to read, including white and yellow."""
DEFAULT = DARK.name
