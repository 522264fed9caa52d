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
    part    text                 -> {}; a piece of a long request, see Agent.verb_part
    stop    target, signal       -> ends the request with that id: a signal for a command, the end for samples
    exit                         -> kills what still runs; the embedded kernel writes all out and powers off
"""

import base64
import json
import os
import selectors
import signal
import sys
import time

PROTOCOL_VERSION = 1
CHUNK_BYTES = 16384
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
# A daemon that a command left behind may hold its output open; the command counts as ended this long after its exit.
DRAIN_SECONDS = 0.2
RUN_DIR = "/run/raidlab"


class Command:
    """A running child with its two output pipes."""

    def __init__(self, agent, request):
        self.agent = agent
        self.id = request["id"]
        self.started = time.monotonic()
        self.deadline = self.started + request["timeout"] if request.get("timeout") else None
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
        try:
            self.pid = os.posix_spawnp(
                request["argv"][0],
                request["argv"],
                agent.child_environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, stdin_read, 0),
                    (os.POSIX_SPAWN_DUP2, out_write, 1),
                    (os.POSIX_SPAWN_DUP2, err_write, 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGINT],
            )
        except OSError:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            os.close(out_write)
            os.close(err_write)
            if text:
                os.close(stdin_read)
        for pipe, kind in ((out_read, "out"), (err_read, "err")):
            os.set_blocking(pipe, False)
            self.pipes[pipe] = kind
            agent.selector.register(pipe, selectors.EVENT_READ, self.on_output)

    def on_output(self, pipe):
        """Pass on one piece; bytes that are no UTF-8 at the cut stay readable by replacement."""
        try:
            data = os.read(pipe, CHUNK_BYTES)
        except BlockingIOError:
            return
        if data:
            self.agent.send({"id": self.id, self.pipes[pipe]: data.decode("utf-8", "replace")})
        else:
            self.close_pipe(pipe)
            self.finish_if_over()

    def close_pipe(self, pipe):
        self.agent.selector.unregister(pipe)
        os.close(pipe)
        del self.pipes[pipe]

    def on_exit(self, wait_status):
        self.status = os.waitstatus_to_exitcode(wait_status)
        self.drain_until = time.monotonic() + DRAIN_SECONDS
        self.finish_if_over()

    def signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def finish_if_over(self, *, force=False):
        if self.status is None or (self.pipes and not force):
            return
        for pipe in list(self.pipes):
            self.close_pipe(pipe)
        self.agent.running.pop(self.id, None)
        self.agent.send(
            {
                "id": self.id,
                "done": True,
                "status": self.status,
                "timed_out": self.timed_out,
                "started": self.started,
                "seconds": time.monotonic() - self.started,
            }
        )

    def next_due(self):
        if self.status is not None:
            return self.drain_until
        return self.deadline

    def on_time(self, now):
        if self.status is not None:
            self.finish_if_over(force=True)
        elif self.deadline and now >= self.deadline:
            # First politely, then for good.
            self.signal(signal.SIGKILL if self.timed_out else signal.SIGTERM)
            self.timed_out = True
            self.deadline = now + 2.0


class Sampler:
    """Reads the same small files again and again; keeps them open, since opening costs more than reading."""

    RESCAN_SECONDS = 0.5

    def __init__(self, agent, request):
        self.agent = agent
        self.id = request["id"]
        self.interval = request["interval"]
        self.files = request["files"]
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
            pieces = []
            offset = 0
            while piece := os.pread(fd, 65536, offset):
                pieces.append(piece)
                offset += len(piece)
                if len(piece) < 4096 and path != "/proc/diskstats":
                    break
            return self.cut(path, b"".join(pieces).decode("ascii", "replace"))
        except OSError:
            fd = self.fds.pop(path, None)
            if fd is not None:
                os.close(fd)
            return None

    def cut(self, path, text):
        if path == "/proc/diskstats":
            lines = text.splitlines()
            return "\n".join(line for line in lines if line.split(None, 3)[2] in self.block_devices)
        if path == "/proc/stat":
            return "\n".join(line for line in text.splitlines() if line.startswith("cpu"))
        return text

    def scan_threads(self):
        found = {name for name in os.listdir("/proc") if name.isdigit()}
        self.other_pids &= found
        for pid in found - self.other_pids - self.threads.keys():
            try:
                with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as comm:
                    name = comm.read().strip()
            except OSError:
                continue
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
        taken = time.monotonic()
        files = {path: self.read(path) for path in self.files}
        sample = {"t": taken, "files": files, "threads": self.thread_ticks(now)}
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
        self.child_environ = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": "/root",
            "TERM": "dumb",
        }
        if is_init:
            self.child_environ["MODPROBE_OPTIONS"] = f"-d {RUN_DIR}/modroot"
        # posix_spawnp looks a program up in the agent's own PATH, which an init does not have.
        os.environ["PATH"] = self.child_environ["PATH"]
        self.pending = b""
        self.parts = ""
        self.is_over = False

    def send(self, message):
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[os.write(self.channel_out, data) :]

    def serve(self):
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
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
                    task.on_time(now)
        self.kill_all()

    def seconds_to_next(self):
        dues = [due for task in self.running.values() if (due := task.next_due()) is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def on_wake(self, fd):
        try:
            while os.read(fd, 512):
                pass
        except BlockingIOError:
            pass
        by_pid = {task.pid: task for task in self.running.values() if isinstance(task, Command)}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                by_pid[pid].on_exit(status)

    def on_request_data(self, fd):
        data = os.read(fd, 65536)
        if not data:
            self.is_over = True
            return
        self.pending += data
        while b"\n" in self.pending:
            line, self.pending = self.pending.split(b"\n", 1)
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
        except FileNotFoundError as error:
            self.send({"id": request_id, "done": True, "error": "not-found", "text": str(error)})
        except OSError as error:
            self.send({"id": request_id, "done": True, "error": "os", "text": str(error)})
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            self.send({"id": request_id, "done": True, "error": "request", "text": repr(error)})

    def verb_part(self, request):
        """A long request comes in acknowledged parts, since a serial line that is sent too much at once stops for good."""
        self.parts += request["text"]
        self.send({"id": request["id"], "done": True})
        if request["last"]:
            whole, self.parts = self.parts, ""
            self.handle(whole.encode())

    def verb_run(self, request):
        self.running[request["id"]] = Command(self, request)

    def verb_read(self, request):
        files = {}
        for path in request["paths"]:
            try:
                with open(path, "rb") as file:
                    files[path] = file.read(4 * 1024 * 1024).decode("utf-8", "replace")
            except OSError:
                files[path] = None
        self.send({"id": request["id"], "done": True, "files": files})

    def verb_list(self, request):
        names = {}
        for path in request["paths"]:
            try:
                names[path] = sorted(os.listdir(path))
            except OSError:
                names[path] = []
        self.send({"id": request["id"], "done": True, "names": names})

    def verb_write(self, request):
        data = base64.b64decode(request["base64"])
        fd = os.open(request["path"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
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
            if isinstance(task, Command):
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
    try:
        Agent(channel_in, channel_out).serve()
    except BrokenPipeError:
        return


if __name__ == "__main__":
    main()
