"""The settings that the app stores, and the user's keymap. A damaged file does not prevent the app from starting."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import platformdirs

from lab.errors import LabError, SpecError
from lab.gates.decoding import parse_toml, read_own_json
from lab.gates.files import make_own_folder
from lab.host.files import replace_file
from lab.tomlfile import toml_text
from tui.look import DEFAULT

STATE_VARIABLE = "RAIDLAB_STATE"
CONFIG_VARIABLE = "RAIDLAB_CONFIG"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that are restored at the next start."""

    theme: str = DEFAULT
    mode: str = "lab"
    array: str = ""
    disk: str = ""
    was_welcomed: bool = False


def state_file() -> Path:
    """The settings file: ``app.json`` in ``$RAIDLAB_STATE``, else in the user's state folder for raidlab."""
    chosen = os.environ.get(STATE_VARIABLE)
    return (Path(chosen) if chosen else platformdirs.user_state_path("raidlab")) / "app.json"


def keymap_file() -> Path:
    """``keymap.toml`` in ``$RAIDLAB_CONFIG``, else in the user's configuration folder (``~/.config/raidlab``)."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    return (Path(chosen) if chosen else platformdirs.user_config_path("raidlab")) / "keymap.toml"


def load_settings(file: Path) -> Settings:
    """The stored settings, with defaults for missing or damaged values."""
    try:
        stored = read_own_json(file, dict[str, Any])
    except (FileNotFoundError, LabError):
        return Settings()
    known = {each.name: type(each.default) for each in fields(Settings)}
    good: dict[str, Any] = {}
    for name, value in stored.items():
        if name in known and isinstance(value, known[name]):
            good[name] = value
    return Settings(**good)


def save_settings(file: Path, settings: Settings) -> str:
    """Store the settings; returns the reason if that fails, else an empty string."""
    try:
        make_own_folder(file.parent, "the state folder")
        replace_file(file, json.dumps(asdict(settings)).encode())
    except LabError as error:
        return error.message
    except OSError as error:
        return error.strerror or str(error)
    return ""


def load_keymap(file: Path, known_ids: Callable[[], frozenset[str]]) -> tuple[dict[str, str], list[str]]:
    """The user's keymap (binding id -> keys), and one line for each problem of the file."""
    try:
        if not file.exists():
            return {}, []
        keys = parse_toml(toml_text(file), source=str(file)).get("keys", {})
    except (OSError, SpecError) as error:
        return {}, [error.message if isinstance(error, SpecError) else f"{file} cannot be read: {error.strerror}"]
    if not isinstance(keys, dict):
        return {}, [f'{file}: keys must be a table, such as [keys] with "lab.fail" = "f"']
    known = known_ids()
    good = {name: value for name, value in keys.items() if name in known and isinstance(value, str) and value}
    return good, [f"{file}: no binding '{name}', or its keys are no text" for name in keys if name not in good]
