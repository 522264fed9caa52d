"""Synthetic students with known results: varied outcomes of a real drill, as bundles.

``captures/`` holds an outcome of each way through drill 1 (see the README there). A student's attempts are drawn from
them, with their own times, hints and seeds. The drawn values are the truth that a class view must find.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lab.classroom.bundle import write_bundle
from lab.drills.case import DrillOutcome
from lab.lessons.course import built_in_course
from lab.lessons.engine import FORMAT_VERSION, Progress, StepProgress

CAPTURES = {path.stem: path.read_bytes() for path in sorted(Path(__file__).with_name("captures").glob("*.json"))}
DRILL = "01-dropped-members"
LESSONS = ("02-striping", "04-parity", "08-two-failures")
# Written by hand while the ways were carried out, so it is independent of the records.
IS_SAVED = {
    "overlays-first": True,
    "read-only-look": True,
    "force-the-stale": False,
    "create-over": False,
    "zero-the-late-one": False,
}
MISTAKES = {
    "force-the-stale": ("stale-forced", "wrote-first"),
    "create-over": ("created-over", "wrote-first", "nothing-runs"),
    "zero-the-late-one": ("zeroed", "wrote-first", "nothing-runs"),
}
_BEGAN = datetime(2026, 9, 1, 8, tzinfo=UTC)


@dataclass(slots=True)
class Truth:
    """The true figures of a class."""

    tries: int = 0
    first_saved: int = 0
    best_saved: int = 0
    first_minutes: list[float] = field(default_factory=list)
    best_minutes: list[float] = field(default_factory=list)
    first_mistakes: Counter[str] = field(default_factory=Counter)
    mistakes: Counter[str] = field(default_factory=Counter)
    """Mistakes in any attempt; each student counts once."""
    begun: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    all_hints: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_lab: Counter[tuple[str, str]] = field(default_factory=Counter)


def signer(number: int) -> Ed25519PrivateKey:
    """Return a key that is the same in every run."""
    return Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


def outcome(way: str, draw: random.Random, *, began: datetime, seed: str) -> DrillOutcome:
    """An attempt by this way, with a random duration, number of hints and array UUID."""
    found = msgspec.json.decode(CAPTURES[way], type=DrillOutcome)
    minutes = round(draw.uniform(4, 40), 2)
    ended = began + timedelta(minutes=minutes)
    uuid = ":".join(f"{draw.getrandbits(32):08x}" for _ in range(4))
    before = {
        name: msgspec.structs.replace(picture, uuid=uuid) if picture.uuid else picture
        for name, picture in found.before.items()
    }
    return msgspec.structs.replace(
        found,
        id=f"{DRILL}-{began:%Y%m%dT%H%M%SZ}",
        drill=DRILL,
        seed=seed,
        began_utc=f"{began:%Y-%m-%dT%H:%M:%SZ}",
        ended_utc=f"{ended:%Y-%m-%dT%H:%M:%SZ}",
        minutes=minutes,
        hints=draw.randint(0, 4),
        resets=draw.randint(0, 2),
        before=before,
    )


def progress(lesson: str, draw: random.Random, *, seed: str, truth: Truth) -> Progress:
    """A completed lesson, or one that ended at some step."""
    names = [step.id for step in built_in_course().find(lesson).ready(seed).steps]
    done = len(names) if draw.random() < 0.6 else draw.randrange(len(names))
    began = _BEGAN + timedelta(seconds=draw.randrange(10**6))
    steps = {}
    for place, name in enumerate(names[: done + 1]):
        hints, by_lab = draw.choice((0, 0, 1, 2, 3)), draw.random() < 0.1
        times = [f"{began + timedelta(minutes=3 * (place + more)):%Y-%m-%dT%H:%M:%SZ}" for more in (0, 1)]
        done_utc = times[1] if place < done else ""
        steps[name] = StepProgress(began_utc=times[0], done_utc=done_utc, hints=hints, by_lab=by_lab)
        truth.all_hints[lesson, name] += hints == 3
        truth.by_lab[lesson, name] += by_lab
    truth.begun[lesson] += 1
    truth.passed[lesson] += done == len(names)
    began_utc = f"{began:%Y-%m-%dT%H:%M:%SZ}"
    return Progress(format_version=FORMAT_VERSION, lesson=lesson, seed=seed, began_utc=began_utc, steps=steps)


def practice(number: int, truth: Truth | None = None) -> dict[str, bytes]:
    """The practice of one student's bundle. The drawn values are added to ``truth``."""
    truth = truth or Truth()
    draw = random.Random(number)
    seed = f"student-{number}"
    began = _BEGAN + timedelta(hours=number)
    work: list[tuple[str, DrillOutcome]] = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        way = draw.choice(list(IS_SAVED))
        work.append((way, outcome(way, draw, began=began, seed=seed)))
        began += timedelta(hours=draw.randint(1, 9))
    _add(truth, work)
    found = {f"drills/{each.id}.json": msgspec.json.encode(each) for _, each in work}
    for lesson in LESSONS[: draw.randint(0, 3)]:
        found[f"lessons/{lesson}.json"] = msgspec.json.encode(progress(lesson, draw, seed=seed, truth=truth))
    return found


def _add(truth: Truth, work: list[tuple[str, DrillOutcome]]) -> None:
    saved = [each.minutes for way, each in work if IS_SAVED[way]]
    # If no attempt saved the data, the best one is that which kept most. Only the forced one kept any.
    forced = [each.minutes for way, each in work if way == "force-the-stale"]
    truth.tries += len(work)
    truth.first_saved += IS_SAVED[work[0][0]]
    truth.best_saved += bool(saved)
    truth.first_minutes.append(work[0][1].minutes)
    truth.best_minutes.append(min(saved or forced or [each.minutes for _, each in work]))
    truth.first_mistakes.update(MISTAKES.get(work[0][0], ()))
    truth.mistakes.update({name for way, _ in work for name in MISTAKES.get(way, ())})


def edited(bundle: bytes) -> bytes:
    """The bundle with better figures in its drills and no other change."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive, zipfile.ZipFile(file, "w") as written:
        for name in archive.namelist():
            data = archive.read(name)
            if name.startswith("drills/"):
                data = msgspec.json.encode({**msgspec.json.decode(data), "saved_percent": 99.5})
            written.writestr(name, data)
    return file.getvalue()


def altered(work: Mapping[str, bytes]) -> dict[str, bytes]:
    """Another student's drills with better figures."""
    return {
        place: msgspec.json.encode({**msgspec.json.decode(data), "minutes": 1.0, "hints": 0})
        for place, data in work.items()
        if place.startswith("drills/")
    }


def hand_in(folder: Path, honest: int, copied: int = 5, changed: int = 5) -> Truth:
    """Write the bundles of students: honest ones, copies of another's work under their own key, and edited ones.

    The last copy has other figures than the original.
    """
    truth = Truth()
    work = {number: practice(number, truth) for number in range(honest)}
    for number, own in work.items():
        (folder / f"s{number:03d}.zip").write_bytes(write_bundle({}, signer(number), own))
    for number in range(copied):
        theirs = altered(work[number]) if number == copied - 1 else work[number]
        (folder / f"t{number}-copy.zip").write_bytes(write_bundle({}, signer(1000 + number), theirs))
    for number in range(changed):
        own = practice(2000 + number)
        (folder / f"u{number}-edited.zip").write_bytes(edited(write_bundle({}, signer(2000 + number), own)))
    return truth
