"""Personalities of emulated drives: of constant service (personalities.toml), with mechanics (drives/), the user's."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import msgspec
import platformdirs

from lab.disks.mechanics import Mechanics
from lab.errors import LabError, SpecError
from lab.tomlfile import read_toml, unknown_word

# What nbdkit, the socket and the kernel's nbd driver add to each request: 0.38 to 0.45 ms at the median on the embedded
# kernel, for delays of 12 and 13 ms. Taken off the delay, so that a drive answers in the time that its table says.
TRANSPORT_MILLISECONDS = 0.4


class Personality(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A drive that answers each request after a constant time, or one with mechanics."""

    title: str
    service_milliseconds: float = 0.0
    concurrent_requests: int = 1
    is_rotational: bool = True
    """What the drive tells the kernel. md reads from the nearest head where drives rotate, else where least waits."""
    mechanics: Mechanics | None = None

    def __post_init__(self) -> None:
        if (self.mechanics is None) == (self.service_milliseconds <= 0):
            raise ValueError("a drive has either service_milliseconds or mechanics")

    @property
    def service_seconds(self) -> float:
        """Time from a small request to its answer on an idle drive; with mechanics the mean over random places."""
        return self.service_milliseconds / 1000 if self.mechanics is None else self.mechanics.mean_random_seconds

    @property
    def iops(self) -> float:
        """What the drive can do at best; with mechanics, one random request after another."""
        return self.concurrent_requests / self.service_seconds

    @property
    def delay_milliseconds(self) -> int:
        """The delay to ask nbdkit for, in whole milliseconds: nbdkit before 1.40 takes 12.9 for 12 without a word."""
        return max(0, round(self.service_milliseconds - TRANSPORT_MILLISECONDS))


def user_folder() -> Path:
    """Where personalities of the user's own lie, one TOML file each; the file's name is the personality's."""
    return platformdirs.user_config_path("raidlab") / "personalities"


def require_free_name(name: str) -> None:
    """Raises SpecError for a name that no file can have or that a built-in personality has."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,40}", name):
        raise SpecError(
            f"'{name}' is no name for a personality", hint="use small letters, digits and - such as my-drive"
        )
    if name in all_personalities() and not (user_folder() / f"{name}.toml").exists():
        raise SpecError(f"'{name}' is a personality of the lab's own", hint="choose another name")


def save_personality(name: str, personality: Personality) -> Path:
    """Keep a personality of the user's own; an earlier one of this name is replaced. Returns its file."""
    require_free_name(name)
    path = user_folder() / f"{name}.toml"
    tree = msgspec.to_builtins(personality)
    mechanics = tree.pop("mechanics", {})
    lines = [f"{key} = {_toml(value)}" for key, value in tree.items()]
    lines += ["", "[mechanics]", *(f"{key} = {_toml(value)}" for key, value in mechanics.items())] if mechanics else []
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}", hint="make its folder writable for you") from None
    all_personalities.cache_clear()
    return path


def _toml(value: object) -> str:
    """A plain value; TOML's strings and numbers are JSON's, its tables are not."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[\n" + "".join(f"  {_toml(each)},\n" for each in value) + "]"
    return json.dumps(value)


@cache
def all_personalities() -> dict[str, Personality]:
    """Name -> personality; the user's own stand before the built-in ones.

    Raises SpecError for a file that is no personality.
    """
    here = Path(__file__).parent
    constant = msgspec.toml.decode((here / "personalities.toml").read_bytes(), type=dict[str, Personality])
    return {**constant, **_read_folder(here / "drives"), **_read_folder(user_folder())}


def _read_folder(folder: Path) -> dict[str, Personality]:
    files = sorted(folder.glob("*.toml")) if folder.is_dir() else []
    return {file.stem: read_toml(file, Personality) for file in files}


def find_personality(name: str) -> Personality:
    """Raises SpecError with the nearest name for an unknown one."""
    found = all_personalities().get(name)
    if found is None:
        raise unknown_word("disk personality", name, all_personalities())
    return found
