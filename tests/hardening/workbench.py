"""Runs the real command as a process, in the folders of one test."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.results.record import ResultRecord, encode_record

RAIDLAB = Path(sys.executable).parent / "raidlab"
MOST_SECONDS = 60.0
MOST_CPU_SECONDS = 10
"""A process that computes for longer is killed: its status is -9."""
MOST_BYTES = 2**30
_MACHINE_SECONDS = 120.0
_NO_ANSWER = ("Traceback (most recent call last)", "this should not happen", "Exception ignored in", "Fatal Python")
"""Output that indicates a bug."""


def expect(holds: object, instead: str) -> None:
    """``instead`` describes what the lab did."""
    assert holds, instead


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended. ``status`` is negative if a signal killed it, None if it did not end in time."""

    words: tuple[str, ...]
    status: int | None
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err

    def __str__(self) -> str:
        words = " ".join(word if len(word) < 60 else f"{word[:57]}…" for word in self.words)
        return f"'{words}' ended with {self.status}: {self.said[-600:]!r}"

    def is_answer(self) -> Done:
        """Require an ordinary exit status, no sign of a bug, and a next step after a failure."""
        expect(self.status is not None, f"no end in time: {self}")
        expect(self.status in range(5) and not any(words in self.said for words in _NO_ANSWER), str(self))
        # Status 1 is also a result, printed as data, such as the findings of lint.
        is_told = self.status == 0 or (self.status == 1 and self.out) or "  next: " in self.err
        expect(is_told, f"no next step: {self}")
        return self

    def worked(self) -> Done:
        expect(self.is_answer().status == 0, str(self))
        return self

    def was_refused(self, *, because: str = "") -> Done:
        """Require a refusal whose message contains ``because``."""
        expect(self.is_answer().status in (1, 2), str(self))
        expect("  next: " in self.err, f"no next step: {self}")
        expect(because.lower() in self.err.lower(), f"refused for another reason than '{because}': {self}")
        return self


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.results = self.state / "results"
        self.disks = self.state / "labs" / "default" / "disks"

    def environment(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in ("RAIDLAB_ON", "RAIDLAB_TEXT")}
        return {**own, "RAIDLAB_STATE": str(self.state), **(changes or {})}

    def run(
        self,
        *words: str | bytes,
        environment: Mapping[str, str] | None = None,
        closes: Sequence[int] = (),
        output: str | Path | None = None,
        on_machine: bool = False,
        seconds: float = 0.0,
    ) -> Done:
        """Run the command to its end. ``on_machine`` allows more time and memory, for the kernel.

        ``closes``: descriptors that are closed. ``output``: the file that is standard output.
        """

        def before() -> None:
            if not on_machine:
                resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
                resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
            for descriptor in closes:
                os.close(descriptor)

        told = tuple(os.fsdecode(word) for word in words)
        with open(output or os.devnull, "wb") as file:
            stdout = file.fileno() if output else subprocess.PIPE
            process = self.start(*words, environment=environment, stdout=stdout, before=before)
            try:
                out, err = process.communicate(timeout=seconds or (_MACHINE_SECONDS if on_machine else MOST_SECONDS))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                return Done(told, None, _text(out), _text(err))
        return Done(told, process.returncode, _text(out), _text(err))

    def start(
        self,
        *words: str | bytes,
        environment: Mapping[str, str] | None = None,
        stdout: int = subprocess.PIPE,
        before: Callable[[], None] = lambda: None,
    ) -> subprocess.Popen[bytes]:
        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            before()

        return subprocess.Popen(
            [RAIDLAB, *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=self.environment(environment),
            cwd=self.folder,
            preexec_fn=prepare,
            start_new_session=True,
        )

    def file(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def store(self, record: ResultRecord) -> None:
        folder = self.results / record.id
        for each in (self.state, self.results, folder, folder / "raw"):
            each.mkdir(mode=0o700, exist_ok=True)
        (folder / "record.json").write_bytes(encode_record(record))


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="surrogateescape")
