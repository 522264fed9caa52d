#!/usr/bin/python3 -IS
"""The agent: runs as root on the machine and does what the client asks, over JSON lines.

One file, standard library only, because it is copied to machines that have nothing but python3. It never listens on a
socket: it speaks on standard input and output, or, as the embedded kernel's init, on /dev/ttyS0.

A request is one line ``{"id": N, "verb": V, ...}``. Every answer carries the request's id, so answers of long requests
and of short ones can mix. The last answer to a request has ``"done": true``.

    run     argv, stdin, timeout -> {"out": text} and {"err": text} pieces, then {"status", "seconds", "started"}
    read    paths                -> {"files": {path: text or null}}
    list    paths                -> {"names": {path: [name, ...]}}
    write   path, text           -> {}
    sample  interval, files, block_devices, thread_prefixes -> {"sample": {...}} at each tick until stopped
    stop    target, signal       -> ends the request with that id: a signal for a command, the end for samples
    exit                         -> kills what still runs; the embedded kernel writes all out and powers off

A serial line that is sent too much at once stops for good, so the agent says how much it has taken in:
``{"event": "received", "bytes": N}`` for each full KiB or so; the client keeps no more than a few KiB under way.
"""

import base64
import codecs
import contextlib
import json
import os
import selectors
import signal
import sys
import time

PROTOCOL_VERSION = 1
CHUNK_BYTES = 16384
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
READ_LIMIT_BYTES = 4 * 1024 * 1024
# A daemon that a command left behind may hold its output open; the command counts as ended this long after its exit.
DRAIN_SECONDS = 0.2
# What is still in a pipe when that time is over is read as far as this (a pipe holds 64 KiB unless it was made larger).
DRAIN_BYTES = 1024 * 1024
KILL_AFTER_SECONDS = 2.0
RECEIPT_BYTES = 1024
SHORTEST_INTERVAL_SECONDS = 0.001
RUN_DIR = "/run/raidlab"


class ChannelClosed(Exception):
    """The client is gone."""


class Command:
    """A running child with its two output pipes."""

    def __init__(self, agent, request):
        self.agent = agent
        self.id = request["id"]
        self.started = time.monotonic()
        self.deadline = self.started + float(request["timeout"]) if request.get("timeout") else None
        self.drain_until = None
        self.timed_out = False
        self.status = None
        self.pipes = {}
        stdin_read = agent.devnull
        text = request.get("stdin") or ""
        if text:
            # A file rather than a pipe: a child that reads slowly must not block the agent.
            stdin_read = os.memfd_create("stdin")
            os.write(stdin_read, text.encode())
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
            for fd in set(given.values()) - {agent.devnull}:
                os.close(fd)
        for pipe, kind in ((out_read, "out"), (err_read, "err")):
            os.set_blocking(pipe, False)
            # Decoded piece by piece: a character may be cut in two by the end of a piece.
            self.pipes[pipe] = (kind, codecs.getincrementaldecoder("utf-8")("replace"))
            agent.selector.register(pipe, selectors.EVENT_READ, self.on_output)

    def on_output(self, pipe):
        """Pass on one piece and return its size; 0 if there is none just now."""
        try:
            data = os.read(pipe, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self.pass_on(pipe, data)
        else:
            self.close_pipe(pipe)
            self.finish_if_over()
        return len(data)

    def pass_on(self, pipe, data, *, final=False):
        kind, decoder = self.pipes[pipe]
        text = decoder.decode(data, final)
        if text:
            self.agent.send({"id": self.id, kind: text})

    def close_pipe(self, pipe):
        self.pass_on(pipe, b"", final=True)
        self.agent.selector.unregister(pipe)
        os.close(pipe)
        del self.pipes[pipe]

    def on_exit(self, wait_status):
        self.status = os.waitstatus_to_exitcode(wait_status)
        if self.timed_out:
            # Its children had the polite signal too; what is left of them would hold devices.
            self.signal(signal.SIGKILL)
        self.drain_until = time.monotonic() + DRAIN_SECONDS
        self.finish_if_over()

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def drain_and_close(self):
        """The command has ended but its pipes have not: take what is there, leave what a daemon may still say."""
        for pipe in list(self.pipes):
            rest = DRAIN_BYTES
            while pipe in self.pipes and rest > 0 and (size := self.on_output(pipe)):
                rest -= size
            if pipe in self.pipes:
                self.close_pipe(pipe)

    def finish_if_over(self):
        if self.status is None or self.pipes or self.id not in self.agent.running:
            return
        self.agent.running.pop(self.id, None)
        end = {"id": self.id, "done": True, "status": self.status, "timed_out": self.timed_out}
        self.agent.send({**end, "started": self.started, "seconds": time.monotonic() - self.started})

    def next_due(self):
        return self.deadline if self.status is None else self.drain_until

    def on_time(self, now):
        if self.status is not None:
            self.drain_and_close()
            self.finish_if_over()
        elif self.deadline and now >= self.deadline:
            # First politely, then for good.
            self.signal(signal.SIGKILL if self.timed_out else signal.SIGTERM)
            self.timed_out = True
            self.deadline = now + KILL_AFTER_SECONDS


class Sampler:
    """Reads the same small files again and again; keeps them open, since opening costs more than reading."""

    RESCAN_SECONDS = 0.5

    def __init__(self, agent, request):
        self.agent = agent
        self.id = request["id"]
        self.interval = max(float(request["interval"]), SHORTEST_INTERVAL_SECONDS)
        self.files = [str(path) for path in request["files"]]
        self.block_devices = frozenset(request["block_devices"])
        self.prefixes = tuple(request["thread_prefixes"])
        self.fds = {}
        self.threads = {}
        self.other_pids = set()
        self.due = self.next_scan = time.monotonic()

    def next_due(self):
        return self.due

    def read(self, path):
        try:
            fd = self.fds.get(path)
            if fd is None:
                fd = self.fds[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            pieces, offset = [], 0
            while piece := os.pread(fd, 65536, offset):
                pieces.append(piece)
                offset += len(piece)
                if len(piece) < 4096 and path != "/proc/diskstats":
                    break
            return self.cut(path, b"".join(pieces).decode("ascii", "replace"))
        except OSError:
            if (fd := self.fds.pop(path, None)) is not None:
                os.close(fd)
            return None

    def cut(self, path, text):
        if path == "/proc/diskstats":
            return "\n".join(row for row in text.splitlines() if row.split(None, 3)[2] in self.block_devices)
        if path == "/proc/stat":
            return "\n".join(row for row in text.splitlines() if row.startswith("cpu"))
        return text

    def scan_threads(self):
        found = {name for name in os.listdir("/proc") if name.isdigit()}
        self.other_pids &= found
        for pid in found - self.other_pids - self.threads.keys():
            name = "kthreadd"
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as comm:
                name = comm.read().strip()
            if name.startswith(self.prefixes):
                self.threads[pid] = name
            elif name != "kthreadd":
                # A kernel thread bears its parent's name until it has been given its own.
                self.other_pids.add(pid)

    def thread_ticks(self, now):
        if not self.prefixes:
            return {}
        if now >= self.next_scan:
            self.scan_threads()
            self.next_scan = now + self.RESCAN_SECONDS
        ticks = {}
        for pid, name in list(self.threads.items()):
            stat = self.read(f"/proc/{pid}/stat")
            if stat is None:
                del self.threads[pid]
                continue
            fields = stat.rpartition(")")[2].split()
            # proc(5): utime and stime are fields 14 and 15 of the line.
            ticks[f"{name}/{pid}"] = int(fields[11]) + int(fields[12])
        return ticks

    def on_time(self, now):
        sample = {"t": time.monotonic(), "files": {path: self.read(path) for path in self.files}}
        sample["threads"] = self.thread_ticks(now)
        self.agent.send({"id": self.id, "sample": sample})
        self.due += self.interval
        if self.due < now:
            # Missed ticks are left out rather than caught up in a burst.
            self.due = now + self.interval

    def close(self):
        for fd in self.fds.values():
            os.close(fd)
        self.agent.running.pop(self.id, None)
        self.agent.send({"id": self.id, "done": True})


class Agent:
    """One thread, one selector: commands, samplers and the channel side by side."""

    def __init__(self, channel_in, channel_out, *, is_init=False):
        self.channel_in = channel_in
        self.channel_out = channel_out
        self.is_init = is_init
        self.running = {}
        self.selector = selectors.DefaultSelector()
        self.devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        # The embedded kernel's root user has its starter's rights on the host's files, so /root may be closed to it.
        home = "/root" if os.access("/root", os.X_OK) else "/tmp"
        self.child_environ = {"PATH": path, "LC_ALL": "C.UTF-8", "HOME": home, "TERM": "dumb"}
        if is_init:
            self.child_environ["MODPROBE_OPTIONS"] = f"-d {RUN_DIR}/modroot"
        # posix_spawnp looks a program up in the agent's own PATH, which an init does not have.
        os.environ["PATH"] = path
        self.pending, self.received = b"", 0
        self.is_over = False

    def send(self, message):
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self.channel_out, data) :]
        except OSError as error:
            raise ChannelClosed from error

    def serve(self):
        """Until the client says exit, hangs up or is gone; then nothing that it started goes on."""
        with contextlib.suppress(ChannelClosed):
            self.serve_until_over()
        self.kill_all()

    def serve_until_over(self):
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(self, "is_over", True))
        self.selector.register(wake_read, selectors.EVENT_READ, self.on_wake)
        self.selector.register(self.channel_in, selectors.EVENT_READ, self.on_request_data)
        self.send({"event": "hello", "protocol": PROTOCOL_VERSION, "uid": os.geteuid(), "facts": facts()})
        while not self.is_over:
            for key, _ in self.selector.select(self.seconds_to_next()):
                # An earlier callback of the same round may have closed this one.
                if key.fileobj in self.selector.get_map():
                    key.data(key.fileobj)
            now = time.monotonic()
            for task in list(self.running.values()):
                due = task.next_due()
                if due is not None and due <= now:
                    try:
                        task.on_time(now)
                    except Exception as error:
                        self.running.pop(task.id, None)
                        self.refuse(task.id, error)

    def seconds_to_next(self):
        dues = [due for task in self.running.values() if (due := task.next_due()) is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def on_wake(self, fd):
        with contextlib.suppress(BlockingIOError):
            while os.read(fd, 512):
                pass
        by_pid = {task.pid: task for task in self.running.values() if isinstance(task, Command)}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in by_pid:
                    by_pid[ended[0]].on_exit(ended[1])

    def on_request_data(self, fd):
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            return
        self.received += len(data)
        if self.received >= RECEIPT_BYTES:
            self.send({"event": "received", "bytes": self.received})
            self.received = 0
        self.pending += data
        if b"\n" in data:
            *lines, self.pending = self.pending.split(b"\n")
            for line in lines:
                if line.strip():
                    self.handle(line)
        if len(self.pending) > MESSAGE_LIMIT_BYTES:
            self.is_over = True

    def handle(self, line):
        request_id = None
        try:
            request = json.loads(line)
            request_id = request["id"]
            getattr(self, "verb_" + request["verb"])(request)
        except Exception as error:
            self.refuse(request_id, error)

    def refuse(self, request_id, error):
        """Whatever a request holds, the agent answers it and lives on."""
        if isinstance(error, ChannelClosed):
            raise error
        kind, text = "not-found" if isinstance(error, FileNotFoundError) else "os", str(error)
        if not isinstance(error, OSError):
            kind, text = "request", repr(error)
        self.send({"id": request_id, "done": True, "error": kind, "text": text})

    def verb_run(self, request):
        self.running[request["id"]] = Command(self, request)

    def verb_read(self, request):
        files = dict.fromkeys(request["paths"])
        for path in files:
            with contextlib.suppress(OSError), open(path, "rb") as file:
                files[path] = file.read(READ_LIMIT_BYTES).decode("utf-8", "replace")
        self.send({"id": request["id"], "done": True, "files": files})

    def verb_list(self, request):
        names = {path: [] for path in request["paths"]}
        for path in names:
            with contextlib.suppress(OSError):
                names[path] = sorted(os.listdir(path))
        self.send({"id": request["id"], "done": True, "names": names})

    def verb_write(self, request):
        data = base64.b64decode(request["base64"])
        with open(request["path"], "wb", buffering=0) as file:
            while data:
                data = data[file.write(data) :]
        self.send({"id": request["id"], "done": True})

    def verb_sample(self, request):
        self.running[request["id"]] = Sampler(self, request)

    def verb_stop(self, request):
        task = self.running.get(request["target"])
        if isinstance(task, Sampler):
            task.close()
        elif task is not None and task.status is None:
            task.signal(request.get("signal", signal.SIGTERM))
        self.send({"id": request["id"], "done": True})

    def verb_exit(self, request):
        self.kill_all()
        if self.is_init:
            os.sync()
        self.send({"id": request["id"], "done": True})
        self.is_over = True

    def kill_all(self):
        for task in list(self.running.values()):
            if isinstance(task, Command) and task.status is None:
                task.signal(signal.SIGKILL)


def facts():
    """What the client records about this machine."""
    name = os.uname()
    return {
        "kernel_release": name.release,
        "architecture": name.machine,
        "host_name": name.nodename,
        "cpu_count": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "python": sys.version.split()[0],
    }


def prepare_embedded_kernel():
    """Mount what a lab needs over the host's files, which stay read-only, and make module loading work."""
    import ctypes
    import fcntl
    import socket
    import struct

    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source, target, kind, options=""):
        if libc.mount(source.encode(), target.encode(), kind.encode(), 0, options.encode()) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")

    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    if not os.path.exists("/dev/null"):
        mount("devtmpfs", "/dev", "devtmpfs")
    mount("tmpfs", "/run", "tmpfs", "mode=755")
    mount("tmpfs", "/tmp", "tmpfs", "mode=1777")
    for folder, kind in (("/dev/shm", "tmpfs"), ("/dev/pts", "devpts")):
        os.makedirs(folder, exist_ok=True)
        mount(kind, folder, kind)
    for folder in ("mnt", "bin", "modroot/lib/modules"):
        os.makedirs(f"{RUN_DIR}/{folder}")
    release = os.uname().release
    # A kernel parameter that the kernel itself does not know reaches its init as an environment variable.
    modules = os.environ.get("RAIDLAB_MODULES", f"/usr/lib/uml/modules/{release}")
    os.symlink(modules, f"{RUN_DIR}/modroot/lib/modules/{release}")
    # The kernel loads drivers by calling this program; /lib/modules of the host holds another kernel's.
    loader = f"{RUN_DIR}/bin/modprobe"
    with open(loader, "w", encoding="ascii") as script:
        script.write(f'#!/bin/sh\nexec /sbin/modprobe -d {RUN_DIR}/modroot "$@"\n')
    os.chmod(loader, 0o755)
    with open("/proc/sys/kernel/modprobe", "w", encoding="ascii") as knob:
        knob.write(loader)
    with open("/proc/sys/kernel/hostname", "w", encoding="ascii") as knob:
        knob.write("raidlab")
    # The loopback interface, for programs that talk to themselves: SIOCSIFFLAGS with IFF_UP | IFF_RUNNING.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14s", b"lo", 0x41, b""))


def power_off():
    """End the embedded kernel: reboot(2) with LINUX_REBOOT_CMD_POWER_OFF."""
    import ctypes

    os.sync()
    ctypes.CDLL(None).reboot(0x4321FEDC)


def main():
    """Serve on the serial line as an embedded kernel's init, otherwise on standard input and output."""
    os.umask(0o022)
    if os.getpid() == 1 and os.path.exists("/dev/ttyS0"):
        import tty

        prepare_embedded_kernel()
        line = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        tty.setraw(line)
        try:
            Agent(line, line, is_init=True).serve()
        finally:
            power_off()
        return
    # Keep the channel to itself: nothing that a library prints may get between the messages.
    channel_in, channel_out = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.dup2(devnull, 1)
    Agent(channel_in, channel_out).serve()


if __name__ == "__main__":
    main()
