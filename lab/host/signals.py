"""Let Ctrl-C, SIGTERM, SIGHUP and the loss of the terminal end a command in an orderly way and in bounded time.

The handler raises an exception, so that all resources are closed in order. If an event loop would swallow the
exception, the handler calls a function instead. At the deadline, the remaining resources are released by force, on a
thread that waits for no lock, loop or terminal.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from lab.host.streams import silence

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
APP_SECONDS: dict[int, float] = {signal.SIGINT: 1.1, signal.SIGTERM: 1.1, signal.SIGHUP: 3.0}
"""Time limits for an app to close in order. It ends within 2 s of SIGTERM, and within 5 s of losing its terminal."""
FORCE_SECONDS = 0.6
UNHURRIED_SECONDS = 10.0
_COMMAND_SECONDS: dict[int, float] = {signal.SIGTERM: 4.0, signal.SIGHUP: 3.0}
_IMPATIENT_FROM = 3
_POLL_SECONDS = 1.0
_HUNG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL | select.POLLRDHUP


class Interrupted(BaseException):
    """A request to end this command. ``exit_status`` is the status that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


class _Ending:
    """Handles requests to end this process."""

    def __init__(self) -> None:
        self.received = 0
        self.is_anything_open = True
        self.listener: Callable[[int], object] | None = None
        self.seconds: Mapping[int, float] = _COMMAND_SECONDS
        self.handled: tuple[int, ...] = ()
        self.is_watching = False
        self.resorts: dict[object, Callable[[float], object]] = {}
        self.unhurried = 0
        self.calm = threading.Condition()
        self._deadline: threading.Timer | None = None

    def handle(self, number: int, _frame: FrameType | None = None) -> None:
        if number == signal.SIGHUP:
            _leave_lost_terminal()
            if self.received:
                # The kernel and the shell each send SIGHUP when a window closes, so a second one is no sign of
                # impatience.
                return
        self.received += 1
        if self.received >= _IMPATIENT_FROM or not self.is_anything_open:
            _write_message("raidlab: interrupted")
            os._exit(128 + number)
        if number in self.seconds:
            self.start_deadline(self.seconds[number], 128 + number)
        if self.received > 1:
            _write_message("raidlab: closing; another signal ends it immediately")
        elif self.listener:
            self.listener(number)
        else:
            raise Interrupted(number)

    def start_deadline(self, seconds: float, status: int) -> None:
        if self._deadline is None:
            self._deadline = threading.Timer(seconds, self._force, (status,))
            self._deadline.daemon = True
            self._deadline.start()

    def _force(self, status: int) -> None:
        with self.calm:
            self.calm.wait_for(lambda: not self.unhurried, timeout=UNHURRIED_SECONDS)
        # Iterate over a copy, because other threads continue to add and remove entries.
        threads = [threading.Thread(target=_quietly, args=(end,), daemon=True) for end in tuple(self.resorts.values())]
        for thread in threads:
            thread.start()
        for thread in threads:
            # On an overloaded host it is better to exit late than to leave something behind.
            thread.join(3 * FORCE_SECONDS)
        os._exit(status)


_ending = _Ending()


def install() -> None:
    """Install the handlers. The first signal raises Interrupted, and a second one only prints that raidlab is closing.

    A signal that the parent ignores stays ignored, so that a command started with nohup(1), or in the background of a
    script, continues.
    """
    _ending.handled = tuple(number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN)
    reinstall()


def reinstall() -> None:
    """Set the handlers again, after other code has set its own."""
    for number in _ending.handled:
        signal.signal(number, _ending.handle)


@contextmanager
def handled_by(listener: Callable[[int], object] | None = None) -> Iterator[None]:
    """Handle signals for an app. The app must close within ``APP_SECONDS``, and ends whenever it loses its terminal.

    If ``listener`` is given, it is called with the signal's number, on any thread, and no exception is raised.
    """
    if not _ending.handled:
        install()
    _ending.listener, _ending.seconds = listener, APP_SECONDS
    try:
        yield
    finally:
        # The deadline stays in effect, because this process must end.
        _ending.listener, _ending.seconds = None, _COMMAND_SECONDS


def at_worst(end: Callable[[float], object]) -> Callable[[], None]:
    """Register ``end``, to be called with its time limit in seconds if there is no time for an orderly close.

    ``end`` is called on a separate thread, whatever other threads are doing, and must not wait for them. Returns a
    function that cancels the registration.
    """
    key = object()
    _ending.resorts[key] = end
    return lambda: _ending.resorts.pop(key, None) and None


@contextmanager
def unhurried() -> Iterator[None]:
    """Allow ``UNHURRIED_SECONDS`` for closing resources that would otherwise leave traces on a real computer."""
    with _ending.calm:
        _ending.unhurried += 1
    try:
        yield
    finally:
        with _ending.calm:
            _ending.unhurried -= 1
            _ending.calm.notify_all()


def watch_terminal(descriptors: tuple[int, ...] = (1,)) -> None:
    """Watch the terminal. From now on, its loss ends the command the way SIGHUP does, even if no signal is sent.

    A session's leader, such as make, may catch SIGHUP and wait for its child, and without a controlling terminal no
    process receives SIGHUP. An app, which is useless without its terminal, ends even if SIGHUP is ignored. With several
    ``descriptors``, pipes and sockets among them are watched too.
    """
    if _ending.is_watching:
        return
    poll, count = select.poll(), 0
    for descriptor in descriptors:
        with suppress(OSError):
            mode = os.fstat(descriptor).st_mode
            if os.isatty(descriptor) or (len(descriptors) > 1 and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))):
                # Hang-ups and errors are always reported (poll(2)).
                poll.register(descriptor, select.POLLRDHUP)
                count += 1
    if count:
        _ending.is_watching = True
        threading.Thread(target=_watch, args=(poll,), name="terminal watch", daemon=True).start()


def _watch(poll: select.poll) -> None:
    recorder = _recorder()
    while not any(event & _HUNG_UP for _, event in poll.poll(_POLL_SECONDS * 1000 if recorder else None)):
        if recorder and _is_cut_off(recorder):
            break
    terminal_is_lost()


def _recorder() -> int:
    """Return the process ID of script(1), which blocks SIGHUP and outlives its terminal, or 0 if it is not running."""
    with suppress(OSError, IndexError, ValueError):
        parent = int(_read(f"/proc/{os.getsid(0)}/stat").rpartition(")")[2].split()[1])
        return parent if _read(f"/proc/{parent}/comm").strip() == "script" else 0
    return 0


def _is_cut_off(process_id: int) -> bool:
    """Whether the process's standard input is a terminal that no longer exists (proc(5), /proc/PID/fd)."""
    with suppress(OSError):
        return str(Path(f"/proc/{process_id}/fd/0").readlink()).endswith(" (deleted)")
    return False


def _read(path: str) -> str:
    return Path(path).read_text("utf-8", "replace")


def terminal_is_lost() -> None:
    """End the command the way SIGHUP does, from any thread. A second call has no further effect."""
    if signal.SIGHUP in _ending.handled:
        # The signal interrupts the main thread, wherever it waits. If that thread does not react, the deadline applies.
        _ending.start_deadline(_ending.seconds[signal.SIGHUP], 128 + signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
    elif _ending.listener:
        _ending.handle(signal.SIGHUP)


def nothing_is_open() -> None:
    """Make signals end the process at once until ``close_in_order`` runs, because an import may swallow exceptions."""
    _ending.is_anything_open = False


def close_in_order() -> None:
    """Make signals start an orderly close, because from now on resources may be open."""
    _ending.is_anything_open = True


def ignore() -> None:
    """Ignore signals once all work is done, because the interpreter restores default handlers before it exits."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def restored() -> Iterator[None]:
    """Restore the handlers after code that sets its own. asyncio would restore Python's handlers instead."""
    before = [(number, signal.getsignal(number)) for number in ENDING]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _leave_lost_terminal() -> None:
    """Replace a terminal that is gone with /dev/null, so that messages during the close do not fail with EIO."""
    for descriptor in range(3):
        try:
            is_lost = stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor)
        except OSError:
            # The descriptor is already closed.
            continue
        if is_lost:
            silence(descriptor)


def _write_message(text: str) -> None:
    """Write to standard error if it is ready. A handler must not wait for a terminal or for a stream's lock."""
    with suppress(OSError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"{text}\n".encode())


def _quietly(end: Callable[[float], object]) -> None:
    with suppress(Exception):
        end(FORCE_SECONDS)
