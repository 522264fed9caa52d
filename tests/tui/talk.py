"""A user of the text mode: types lines and reads the output."""

from __future__ import annotations

import io
import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from lab.cli import main as command_line
from lab.cli.app import make_app
from lab.cli.session import typed_verb
from tests.tui.fake_lab import FakeLab
from tests.waiting import PATIENCE_SECONDS
from tui.client import LabClient
from tui.text import TextApp


class Talk:
    """Types lines into a text mode on a fake lab, and waits for its output."""

    def __init__(self, lab: FakeLab) -> None:
        self.lab = lab
        self.output = io.StringIO()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.app = TextApp(
            "uml:",
            run_line=lambda argv: command_line.run(argv),
            read_verb=partial(typed_verb, make_app()),
            commands=("lesson", "results", "load", "workloads", "array"),
            read=self._lines.get,
            write=self.output,
            make_client=lambda post: LabClient("uml:", post, host=lab.host, opener=lab.open),
        )
        self.status: list[int] = []
        self._thread = threading.Thread(target=lambda: self.status.append(self.app.run()), daemon=True)
        self._thread.start()
        self._heard = 0

    def type(self, line: str) -> None:
        self._lines.put(f"{line}\n")

    def ask(self, line: str, words: str) -> str:
        """Type a line, and wait for these words in the output after it."""
        self.type(line)
        return self.hear(words)

    def hear(self, words: str) -> str:
        """Wait for these words after the output that was read before; returns the output up to them."""
        self.wait(lambda: words in self.output.getvalue()[self._heard :], words)
        text = self.output.getvalue()
        end = text.index(words, self._heard) + len(words)
        heard, self._heard = text[self._heard : end], end
        return heard

    def wait(self, is_reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_reached():
            assert time.monotonic() < deadline, f"never: {what}; said: {self.output.getvalue()}"
            time.sleep(0.005)

    def close(self) -> None:
        self._lines.put("")
        self._thread.join(PATIENCE_SECONDS)
        self.app.client.close()

    def look(self) -> None:
        """Take one sample of the fake lab, and wait until the text mode has handled it."""
        self.wait(lambda: self.lab.machine.stream_of_samples is not None, "the monitor asks for samples")
        self.lab.tick()
        self.wait(lambda: self._seen_seconds() >= self.lab.seconds, "the sample")

    def _seen_seconds(self) -> float:
        look = self.app.lab.snapshot
        return look.time_seconds if look else 0.0
