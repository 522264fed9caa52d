"""Keys as a terminal sends them to a program: xterm's, as terminfo's xterm-256color has them."""

from __future__ import annotations

_LETTERED = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_FUNCTIONS = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_NUMBERED = {
    "insert": 2, "delete": 3, "pageup": 5, "pagedown": 6, "f5": 15, "f6": 17, "f7": 18, "f8": 19, "f9": 20, "f10": 21,
    "f11": 23, "f12": 24,
}  # fmt: skip
_PLAIN = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " ", "shift+tab": "\x1b[Z"}
_CONTROLS = {
    "at": 0, "space": 0, "left_square_bracket": 27, "backslash": 28, "right_square_bracket": 29,
    "circumflex_accent": 30, "underscore": 31, "slash": 31, "minus": 31, "backspace": 8, "h": 8,
}  # fmt: skip
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}


def typed(key: str, character: str | None, *, cursor_keys: bool) -> bytes:
    """What a key sends; nothing for one that no terminal has.

    Args:
        key: its name, as Textual has it.
        character: what it writes, if anything.
        cursor_keys: whether the program has asked for the other form of arrows, Home and End (DECCKM).
    """
    if key in _PLAIN:
        return _PLAIN[key].encode()
    *held, name = key.split("+")
    if any(each not in _MODIFIERS for each in held):
        return (character or "").encode()
    modifier = sum(_MODIFIERS[each] for each in held)
    if special := _special(name, modifier, cursor_keys=cursor_keys):
        return special.encode()
    before = "\x1b" if "alt" in held else ""
    if "ctrl" in held:
        code = _CONTROLS.get(name, ord(name) & 31 if len(name) == 1 and name.isascii() and name.isalpha() else -1)
        return (before + chr(code)).encode() if code >= 0 else b""
    if name in _PLAIN:
        return (before + _PLAIN[name]).encode()
    letter = character or (name if len(name) == 1 else "")
    return (before + letter).encode() if letter and (before or letter.isprintable()) else b""


def _special(name: str, modifier: int, *, cursor_keys: bool) -> str:
    """Arrows, function keys and the like; a modifier is a number, one more than its bits."""
    if name in _NUMBERED:
        return f"\x1b[{_NUMBERED[name]}" + (f";{modifier + 1}~" if modifier else "~")
    final = _LETTERED.get(name) or _FUNCTIONS.get(name)
    if final is None:
        return ""
    if modifier:
        return f"\x1b[1;{modifier + 1}{final}"
    return f"\x1bO{final}" if cursor_keys or name in _FUNCTIONS else f"\x1b[{final}"


def pasted(text: str, *, is_bracketed: bool) -> bytes:
    """Text of the clipboard: its lines end as typed ones do, and nothing in it is a key or the end of the paste."""
    lines = text.replace("\r\n", "\r").replace("\n", "\r")
    clean = "".join(sign for sign in lines if sign in "\r\t" or sign.isprintable())
    return (f"\x1b[200~{clean}\x1b[201~" if is_bracketed else clean).encode()
