#!/usr/bin/python3 -IS
"""The agent, which runs as root on the machine and executes the requests that the client sends as JSON lines.

It is a single file that uses only the standard library, because it is copied to machines that have only python3 (3.9 or
later). It does not listen on a socket, but uses standard input and output, or the device that kernel_init.py opens.

A request is one line ``{"id": N, "verb": V, ...}``. Every answer carries the request's id, so answers to long and to
short requests can be interleaved. The last answer to a request has ``"done": true``.

    run     argv, stdin, timeout -> {"out": text} and {"err": text} pieces, then {"status", "seconds", "started"}
    read    paths                -> {"files": {path: text or null}}
    list    paths                -> {"names": {path: [name, ...]}}
    write   path, base64         -> {}
    load    name, source         -> {}; a file like this one, with further verbs in ``verbs``
    stop    target, signal       -> ends the request with that id: signals a command, ends any other request
    exit                         -> kills running processes; an embedded kernel also syncs its disks, then powers off

The serial line of User Mode Linux never works again after an overrun. Therefore the agent acknowledges its input about
once per KiB with ``{"event": "received", "bytes": N}``, and the client keeps only a few KiB in flight.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import functools
import json
import os
import selectors
import signal
import time

TYPE_CHECKING = False  # typing is not imported, because importing it takes an embedded kernel about ten milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Task(Protocol):
        """A long request. The agent calls ``on_time`` when the request is due, and ``stop`` to end it."""

        @property
        def id(self) -> int: ...
        @property
        def due(self) -> float | None: ...
        @property
        def passes_time(self) -> bool: ...
        def on_time(self, now: float) -> None: ...
        def stop(self, number: int) -> None: ...


PROTOCOL_VERSION = 2
CHUNK_BYTES = 16384
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
READ_LIMIT_BYTES = 4 * 1024 * 1024
READ_BYTES = 65536
SYSFS_BYTES = 4096
# A daemon that a command leaves behind may hold its output open. The command counts as ended this long after its exit.
DRAIN_SECONDS = 0.2
# Limit for reading the rest of a pipe after that time (a pipe holds 64 KiB unless it was enlarged).
DRAIN_BYTES = 1024 * 1024
KILL_AFTER_SECONDS = 2.0
# Time limit for killed processes to end.
END_SECONDS = 1.0
RECEIPT_BYTES = 1024
RUN_FOLDER = "/run/raidlab"
"""The lab's files on a machine, which last until it reboots."""


class ChildProcess:
    """A running command and its two output pipes."""

    def __init__(self, agent: Agent, request: dict[str, Any]) -> None:
        self.agent = agent
        self.id: int = request["id"]
        self.passes_time = not request.get("aside")
        self.started = time.monotonic()
        self.due = self.started + float(request["timeout"]) if request.get("timeout") else None
        self.timed_out = False
        self.status: int | None = None
        self.pipes: dict[int, tuple[str, codecs.IncrementalDecoder]] = {}
        # This is a file rather than a pipe, because a child that reads slowly must not block the agent.
        stdin_read = os.memfd_create("stdin")
        os.write(stdin_read, (request.get("stdin") or "").encode())
        os.lseek(stdin_read, 0, os.SEEK_SET)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        given = {0: stdin_read, 1: out_write, 2: err_write}
        try:
            self.pid = os.posix_spawnp(
                request["argv"][0],
                request["argv"],
                agent.child_environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in given.items()],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGINT],
            )
        except BaseException:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            for fd in given.values():
                os.close(fd)
        for pipe, kind in ((out_read, "out"), (err_read, "err")):
            os.set_blocking(pipe, False)
            # Decode incrementally, because a piece may end within a character.
            self.pipes[pipe] = (kind, codecs.getincrementaldecoder("utf-8")("replace"))
            agent.selector.register(pipe, selectors.EVENT_READ, self.on_output)
        agent.running[self.id] = self

    def on_output(self, pipe: int) -> int:
        """Send one piece to the client and return its size; 0 if no data are available."""
        try:
            data = os.read(pipe, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        self.pass_on(pipe, data)
        self.finish_if_over()
        return len(data)

    def pass_on(self, pipe: int, data: bytes) -> None:
        """Send one piece to the client. An empty piece closes the pipe."""
        kind, decoder = self.pipes[pipe]
        if text := decoder.decode(data, final=not data):
            self.agent.send({"id": self.id, kind: text})
        if not data:
            self.agent.selector.unregister(pipe)
            os.close(pipe)
            del self.pipes[pipe]

    def on_exit(self, wait_status: int) -> None:
        self.status = os.waitstatus_to_exitcode(wait_status)
        if self.timed_out:
            # The command's children received SIGTERM too. Any survivors would keep devices in use.
            self.signal(signal.SIGKILL)
        self.due = time.monotonic() + DRAIN_SECONDS
        self.finish_if_over()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def stop(self, number: int) -> None:
        # In virtual time, time must pass for the command to end.
        self.passes_time = True
        if self.status is None:
            self.signal(number)

    def finish_if_over(self) -> None:
        if self.status is None or self.pipes or self.agent.running.pop(self.id, None) is None:
            return
        end = {"id": self.id, "done": True, "status": self.status, "timed_out": self.timed_out}
        self.agent.send({**end, "started": self.started, "seconds": time.monotonic() - self.started})

    def on_time(self, now: float) -> None:
        if self.status is None:
            # Send SIGTERM first, and SIGKILL the next time.
            self.signal(signal.SIGKILL if self.timed_out else signal.SIGTERM)
            self.timed_out = True
            self.due = now + KILL_AFTER_SECONDS
            return
        # The command has ended but its pipes are open. Read the available data, and ignore later output of a daemon.
        for pipe in list(self.pipes):
            rest = DRAIN_BYTES
            while pipe in self.pipes and rest > 0 and (size := self.on_output(pipe)):
                rest -= size
            if pipe in self.pipes:
                self.pass_on(pipe, b"")
        self.finish_if_over()


class Agent:
    """Serves commands, samplers and the channel on one thread, with one selector. ``init_environ`` is only for init."""

    most_requests = -1
    """Maximum number of requests to handle at a time, or -1 for all that have arrived."""

    def __init__(self, channel_in: int, channel_out: int, *, init_environ: Mapping[str, str] | None = None) -> None:
        self.channel_in = channel_in
        self.channel_out = channel_out
        self.is_init = init_environ is not None
        self.running: dict[int, Task] = {}
        self.verb_run = functools.partial(ChildProcess, self)
        self.selector = selectors.DefaultSelector()
        path = f"{RUN_FOLDER}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        usual = {"PATH": path, "LC_ALL": "C.UTF-8", "HOME": "/root", "TERM": "dumb"}
        self.child_environ = {**usual, **(init_environ or {})}
        # posix_spawnp searches the agent's own PATH, which init does not have.
        os.environ["PATH"] = path
        self.pending, self.received = b"", 0
        self.is_over = False

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self.channel_out, data) :]
        except OSError:
            # The client is gone.
            self.is_over = True

    def serve(self) -> None:
        """Serve until the client sends exit, hangs up or is gone. Then kill all processes that the agent started."""
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(self, "is_over", True))
        self.selector.register(wake_read, selectors.EVENT_READ, self.on_wake)
        self.listen()
        self.send({"event": "hello", "protocol": PROTOCOL_VERSION, "facts": facts()})
        while not self.is_over:
            due = self.next_due()
            for key, _ in self.selector.select(None if due is None else max(0.0, due - time.monotonic())):
                # An earlier callback of the same round may have closed this file.
                if key.fileobj in self.selector.get_map():
                    key.data(key.fileobj)
            now = time.monotonic()
            for task in list(self.running.values()):
                if task.due is not None and task.due <= now:
                    try:
                        task.on_time(now)
                    except Exception as error:
                        self.running.pop(task.id, None)
                        self.refuse(task.id, error)
        self.kill_all()

    def listen(self) -> None:
        self.selector.register(self.channel_in, selectors.EVENT_READ, self.on_request_data)

    def next_due(self) -> float | None:
        return min((task.due for task in self.running.values() if task.due is not None), default=None)

    def on_wake(self, fd: int) -> None:
        os.read(fd, 512)
        by_pid = {child.pid: child for child in self.children()}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in by_pid:
                    by_pid[ended[0]].on_exit(ended[1])

    def on_request_data(self, fd: int) -> None:
        """Read from the channel, and call the method that handles each request's verb."""
        if b"\n" not in self.pending and not self.is_over:
            self.receive()
        *lines, self.pending = self.pending.split(b"\n", self.most_requests)
        for line in filter(bytes.strip, lines):
            request_id = None
            try:
                request = json.loads(line)
                request_id = request["id"]
                getattr(self, "verb_" + request["verb"])(request)
            except Exception as error:
                self.refuse(request_id, error)

    def receive(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self.channel_in, 65536)
        self.is_over |= not data or len(self.pending) > MESSAGE_LIMIT_BYTES
        self.pending += data
        self.received += len(data)
        if self.received >= RECEIPT_BYTES:
            self.send({"event": "received", "bytes": self.received})
            self.received = 0

    def refuse(self, request_id: int | None, error: Exception) -> None:
        """Answer a request with an error. No request may end the agent."""
        kind, text = "not-found" if isinstance(error, FileNotFoundError) else "os", str(error)
        if not isinstance(error, OSError):
            kind, text = "request", repr(error)
        self.send({"id": request_id, "done": True, "error": kind, "text": text})

    def verb_read(self, request: dict[str, Any]) -> None:
        files: dict[str, str | None] = dict.fromkeys(request["paths"])
        for path in files:
            with contextlib.suppress(OSError):
                files[path] = read_whole(path).decode("utf-8", "replace")
        self.send({"id": request["id"], "done": True, "files": files})

    def verb_list(self, request: dict[str, Any]) -> None:
        names: dict[str, list[str]] = {path: [] for path in request["paths"]}
        for path in names:
            with contextlib.suppress(OSError):
                names[path] = sorted(os.listdir(path))
        self.send({"id": request["id"], "done": True, "names": names})

    def verb_write(self, request: dict[str, Any]) -> None:
        with open(request["path"], "wb") as file:
            file.write(base64.b64decode(request["base64"]))
        self.send({"id": request["id"], "done": True})

    def verb_load(self, request: dict[str, Any]) -> None:
        """Load a file on first use, so that an embedded kernel compiles only the files that it needs."""
        names: dict[str, Any] = {"__name__": request["name"]}
        exec(compile(request["source"], request["name"], "exec"), names)
        for name, verb in names["verbs"].items():
            setattr(self, "verb_" + name, functools.partial(verb, self))
        self.send({"id": request["id"], "done": True})

    def verb_stop(self, request: dict[str, Any]) -> None:
        if task := self.running.get(request["target"]):
            task.stop(request.get("signal", signal.SIGTERM))
        self.send({"id": request["id"], "done": True})

    def verb_exit(self, request: dict[str, Any]) -> None:
        self.kill_all()
        if self.is_init:
            os.sync()
        self.send({"id": request["id"], "done": True})
        self.is_over = True

    def children(self) -> list[Any]:
        """Return the requests that are processes: commands, and the shells of terminals."""
        return [task for task in self.running.values() if hasattr(task, "pid")]

    def kill_all(self) -> None:
        """Kill running processes. Wait at most END_SECONDS for them, because one of them may wait for a disk."""
        children = [child for child in self.children() if child.status is None]
        for child in children:
            child.stop(signal.SIGKILL)
        until = time.monotonic() + END_SECONDS
        for child in children:
            while time.monotonic() < until and not has_ended(child.pid):
                time.sleep(0.002)


def has_ended(pid: int) -> bool:
    """Whether a child has ended. Its status is left for waitpid(2)."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def read_whole(path: str) -> bytes:
    """Read a small file in pieces, because a buffer for the largest file would cost more. sysfs needs only one read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        piece = os.read(fd, READ_BYTES)
        data = bytearray(piece)
        is_whole = path.startswith("/sys/block/") and len(data) < SYSFS_BYTES
        while piece and not is_whole and len(data) < READ_LIMIT_BYTES:
            piece = os.read(fd, READ_BYTES)
            data += piece
        return bytes(data[:READ_LIMIT_BYTES])
    finally:
        os.close(fd)


def facts() -> dict[str, str | int]:
    """Return the facts that the client records about this machine."""
    name = os.uname()
    return {
        "kernel_release": name.release,
        "architecture": name.machine,
        "host_name": name.nodename,
        "cpu_count": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def main() -> None:
    """Serve on private copies of standard input and output, so that no library can print between messages."""
    os.umask(0o022)
    channel_in, channel_out = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.dup2(devnull, 1)
    Agent(channel_in, channel_out).serve()
    # Exit immediately, because Python's own shutdown can fail on the thread of a program that still waits for a disk.
    os._exit(0)


if __name__ == "__main__":
    main()
