"""What a confined process can do to the computer's files and programs, with each combination of layers."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_SECONDS

CONFINEMENT = Path(__file__).resolve().parents[3] / "lab" / "machine" / "confinement.py"
WRITING = {
    *("write", "append", "create", "unlink", "rename", "hard link", "symbolic link", "make folder", "remove folder"),
    *("fifo", "socket", "parent's root", "device"),
}
EMPTYING = {"truncate", "empty at opening", "empty at opening for nothing"}
CHANGING = EMPTYING | {"mode", "owner", "times", "attribute", "flags"}
READING = {"read another file", "list another folder"}
LOOKING_UP = {"look up another file"}
# Sockets of the same user: by a path that may be read, by another path, and by an abstract name.
BY_PATH, BY_OTHER_PATH, ABSTRACT = (
    {f"{way} {name}" for way in ("connect", "sendto", "sendmsg", "sendmmsg")}
    for name in ("by path", "by another path", "abstract")
)
REACHING = BY_PATH | BY_OTHER_PATH | ABSTRACT | {"take another's socket", "read shared memory"}
ANSWERS_WITHOUT_EFFECT = {"mode by descriptor"}

# Confines itself, then tries many ways to read, write and reach things. Each way has its own file.
PROGRAM = """
import ctypes, fcntl, json, os, socket, struct, sys
sys.path.insert(0, sys.argv[1])
import confinement
base, layers = sys.argv[2], json.loads(sys.argv[3])
out, image, folder = base + "/out", base + "/image", base + "/folder"
shared = int(sys.argv[4])
outside = os.readlink("/proc/self")
held = confinement.confine([image, folder], layers, readable=[out, base + "/listening", base + "/datagrams"])
libc = ctypes.CDLL(None, use_errno=True)
if "namespace" in held and (first := os.fork()):
    # The next child is the first process of the PID namespace; when it ends, no other can start.
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))

def write(path, flags=os.O_WRONLY):
    fd = os.open(path, flags)
    os.write(fd, b"x" * 8)
    os.close(fd)

def put(text, path):
    with open(path, "w") as file:
        file.write(text)

def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")

def through_link(make):
    make(f"{out}/through {make.__name__}", f"{folder}/{make.__name__}")
    write(f"{folder}/{make.__name__}")

def set_flags(fd):
    flags = bytearray(8)
    fcntl.ioctl(fd, 0x80086601, flags)
    fcntl.ioctl(fd, 0x40086602, bytes([flags[0] | 0x80]) + bytes(flags[1:]))  # FS_IOC_SETFLAGS: noatime

def remount():
    # MS_REMOUNT | MS_BIND: writable again
    call(libc.mount(None, b"/", None, ctypes.c_ulong(32 | 4096), None))

def remount_as_another():
    call(libc.unshare(0x10000000 | 0x00020000))
    remount()

def connect(name):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(name.replace("datagrams", "listening"))

def datagram(send):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        send(client)

def sendmmsg(client, name):
    path = name.encode()
    address = ctypes.create_string_buffer(struct.pack("=H", socket.AF_UNIX) + path)
    text = ctypes.create_string_buffer(b"sendmmsg")
    vector = ctypes.create_string_buffer(struct.pack("@PN", ctypes.addressof(text), 8))
    header = struct.pack("@PIPNPNi", ctypes.addressof(address), 2 + len(path), ctypes.addressof(vector), 1, 0, 0, 0)
    message = ctypes.create_string_buffer(header + bytes(64 - len(header)))
    call(libc.sendmmsg(client.fileno(), message, 1, 0))

SENDING = {
    "sendto": lambda name: datagram(lambda client: client.sendto(b"sendto", name)),
    "sendmsg": lambda name: datagram(lambda client: client.sendmsg([b"sendmsg"], [], 0, name)),
    "sendmmsg": lambda name: datagram(lambda client: sendmmsg(client, name)),
    "connect": connect,
}

def take_socket():
    # pidfd_open, pidfd_getfd: the test's own socket, by its descriptor.
    pidfd = libc.syscall(434, int(sys.argv[5]), 0)
    call(pidfd)
    call(libc.syscall(438, pidfd, int(sys.argv[6]), 0))

def shared_memory():
    libc.shmat.restype = ctypes.c_void_p
    if libc.shmat(shared, None, 0o10000) == ctypes.c_void_p(-1).value:
        raise OSError(1, "refused")

def bind():
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(out + "/new socket")

ways = {
    "write": lambda: write(out + "/write"),
    "append": lambda: write(out + "/append", os.O_WRONLY | os.O_APPEND),
    "create": lambda: write(out + "/new file", os.O_WRONLY | os.O_CREAT),
    "unlink": lambda: os.unlink(out + "/unlink"),
    "rename": lambda: os.rename(out + "/rename", out + "/renamed"),
    "hard link": lambda: through_link(os.link),
    "symbolic link": lambda: through_link(os.symlink),
    "make folder": lambda: os.mkdir(out + "/new folder"),
    "remove folder": lambda: os.rmdir(out + "/empty"),
    "fifo": lambda: os.mkfifo(out + "/new fifo"),
    "socket": bind,
    "parent's root": lambda: write(f"/proc/{outside}/root{out}/parent's root"),
    "device": lambda: os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)),
    "truncate": lambda: os.truncate(out + "/truncate", 1),
    "empty at opening": lambda: os.close(os.open(out + "/empty at opening", os.O_RDONLY | os.O_TRUNC)),
    "empty at opening for nothing": lambda: os.close(os.open(out + "/empty at opening for nothing", 3 | os.O_TRUNC)),
    "mode": lambda: os.chmod(out + "/mode", 0o777),
    "mode by descriptor": lambda: os.fchmod(os.open(out + "/mode by descriptor", os.O_RDONLY), 0o777),
    "owner": lambda: os.chown(out + "/owner", os.geteuid(), os.getegid()),
    "times": lambda: os.utime(out + "/times", (1, 1)),
    "attribute": lambda: os.setxattr(out + "/attribute", "user.x", b"y"),
    "flags": lambda: set_flags(os.open(out + "/flags", os.O_RDONLY)),
    "read another file": lambda: os.read(os.open(base + "/secret/key", os.O_RDONLY), 1),
    "list another folder": lambda: os.listdir(base + "/secret"),
    "look up another file": lambda: os.stat(base + "/secret/key"),
    "take another's socket": take_socket,
    "read shared memory": shared_memory,
    # These must still work.
    "own image": lambda: write(image),
    "own image's size": lambda: os.ftruncate(os.open(image, os.O_RDWR), 1 << 20),
    "own folder": lambda: (put("x", folder + "/x"), os.rename(folder + "/x", folder + "/y"), os.unlink(folder + "/y")),
    "own memory": lambda: write(folder, os.O_RDWR | os.O_EXCL | os.O_TMPFILE),
    "nothing": lambda: write("/dev/null"),
    "chance": lambda: os.read(os.open("/dev/random", os.O_RDONLY), 1),
    "reading": lambda: os.read(os.open(out + "/write", os.O_RDONLY), 1),
    "a process of its own": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
}
for name, send in SENDING.items():
    ways[name + " by path"] = lambda send=send: send(base + "/datagrams")
    ways[name + " by another path"] = lambda send=send: send(base + "/secret/datagrams")
    ways[name + " abstract"] = lambda send=send: send("\\0" + base + "/datagrams")
if "namespace" in held:
    # Without the namespace this would change the computer's own mount.
    ways |= {"remount": remount, "remount as another user": remount_as_another}
done = []
for name, way in ways.items():
    # In separate processes, since some ways change the process.
    pid = os.fork()
    if pid == 0:
        try:
            way()
            os._exit(0)
        except OSError:
            os._exit(1)
        finally:
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 1), name
    if status == 0:
        done.append(name)
print(json.dumps({"held": held, "done": done}))
"""
OWN = {
    *("own image", "own image's size", "own folder", "own memory", "nothing", "chance", "reading"),
    "a process of its own",
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    out = tmp_path / "out"
    for folder in (out, out / "empty", tmp_path / "folder", tmp_path / "secret"):
        folder.mkdir()
    (tmp_path / "secret/key").write_text("secret")
    for name in (*WRITING, *CHANGING, *ANSWERS_WITHOUT_EFFECT, "through link", "through symlink"):
        (out / name).write_text("untouched")
        (out / name).chmod(0o600)
    (tmp_path / "image").write_bytes(bytes(4096))
    return tmp_path


def listing(folder: Path) -> dict[str, tuple[object, ...]]:
    """All properties of the files in a folder that could be changed."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        text = path.read_text() if path.is_file() else ""
        found[path.name] = (status.st_mode, status.st_uid, status.st_ctime_ns, status.st_nlink, text)
    return found


def attempt(base: Path, layers: list[str]) -> tuple[list[str], set[str], set[str]]:
    """Return the layers in force, the ways that succeeded, and the messages that arrived outside."""
    with ExitStack() as stack:
        datagrams = []
        for name in (f"{base}/listening", f"{base}/secret/listening", f"\0{base}/listening"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(name)
            server.listen()
            receiver = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            receiver.bind(name.replace("listening", "datagrams"))
            receiver.setblocking(False)
            datagrams.append(receiver)
        libc = ctypes.CDLL(None)
        # IPC_PRIVATE, and IPC_RMID at the end (shmget(2), shmctl(2)).
        shared = libc.shmget(0, 4096, 0o600)
        stack.callback(libc.shmctl, shared, 0, None)
        argv = [sys.executable, "-IS", "-c", PROGRAM, str(CONFINEMENT.parent), str(base), json.dumps(layers)]
        argv += [str(shared), str(os.getpid()), str(datagrams[0].fileno())]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        arrived = set()
        for receiver, kind in zip(datagrams, ("by path", "by another path", "abstract"), strict=True):
            with suppress(BlockingIOError):
                while text := receiver.recv(64):
                    arrived.add(f"{text.decode()} {kind}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer["held"], set(answer["done"]), arrived


def reasons_against() -> dict[str, str]:
    done = subprocess.run([sys.executable, "-IS", str(CONFINEMENT)], capture_output=True, text=True, check=True)
    reasons: dict[str, str] = json.loads(done.stdout)
    return reasons


def needs(*layers: str) -> None:
    for layer, reason in reasons_against().items():
        if layer in layers and reason:
            pytest.skip(f"this computer has no {layer}: {reason}")


def test_without_a_layer_all_of_it_can_be_done(base: Path) -> None:
    before = listing(base / "out")
    held, done, arrived = attempt(base, [])
    assert held == []
    # Whether a process may take another's socket depends on the computer's ptrace_scope.
    everything = WRITING | CHANGING | READING | LOOKING_UP | REACHING | ANSWERS_WITHOUT_EFFECT | OWN
    assert done | {"take another's socket"} == everything
    assert arrived == {way for way in REACHING if way.startswith("send")}
    after = listing(base / "out")
    same = {name for name in before if before[name] == after.get(name)}
    # Files created by these ways have other names, and a link is not the file that is written through it.
    assert same <= {"device", "create", "make folder", "remove folder", "fifo", "socket", "hard link", "symbolic link"}


@pytest.mark.parametrize(
    ("layers", "left"),
    [
        # It protects everything except a socket whose path is readable.
        (["namespace"], BY_PATH),
        (["landlock"], LOOKING_UP | REACHING - {"take another's socket"} | CHANGING | ANSWERS_WITHOUT_EFFECT),
        (["seccomp"], WRITING | READING | LOOKING_UP | {"read shared memory"} | ANSWERS_WITHOUT_EFFECT),
        (["namespace", "landlock"], BY_PATH),
        (["namespace", "seccomp"], {"sendto by path"} | ANSWERS_WITHOUT_EFFECT),
        (["landlock", "seccomp"], LOOKING_UP | {"read shared memory"} | ANSWERS_WITHOUT_EFFECT),
        (["namespace", "landlock", "seccomp"], {"sendto by path"} | ANSWERS_WITHOUT_EFFECT),
    ],
)
def test_what_each_layer_leaves(base: Path, layers: list[str], left: set[str]) -> None:
    needs(*layers)
    before = listing(base / "out")
    held, done, arrived = attempt(base, layers)
    assert held == layers
    # Landlock alone restricts truncation since ABI 3, abstract sockets since ABI 6.
    unsure = EMPTYING | ABSTRACT if layers == ["landlock"] else set()
    assert done - unsure == (OWN | left) - unsure
    assert arrived - unsure == {way for way in left & REACHING if way.startswith("send")} - unsure
    if not left & (WRITING | CHANGING):
        assert listing(base / "out") == before


# systemd makes all mounts shared, so that they propagate to other namespaces.
SHARED = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
import confinement as c
try:
    c._check(c._libc.unshare(c.CLONE_NEWNS))
except PermissionError:
    user, group = os.geteuid(), os.getegid()
    c._check(c._libc.unshare(c.CLONE_NEWUSER | c.CLONE_NEWNS))
    with open("/proc/self/uid_map", "w") as file:
        file.write(f"{user} {user} 1")
    with open("/proc/self/setgroups", "w") as file:
        file.write("deny")
    with open("/proc/self/gid_map", "w") as file:
        file.write(f"{group} {group} 1")
c._mount("none", "/", c.MS_REC | 1 << 20)
table = open("/proc/self/mountinfo")
before = table.read()
(ready_read, ready_write), (over_read, over_write) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(over_write)
    assert c.confine([sys.argv[2]], ["namespace"]) == ["namespace"]
    assert not os.path.exists("/proc/self/mountinfo")
    os.write(ready_write, b"x")
    os.read(over_read, 1)
    os._exit(0)
os.close(ready_write)
assert os.read(ready_read, 1) == b"x"
assert open("/proc/self/mountinfo").read() == before
os.write(over_write, b"x")
"""


def test_the_namespaces_mounts_show_nowhere_else(base: Path) -> None:
    needs("namespace")
    argv = [sys.executable, "-IS", "-c", SHARED, str(CONFINEMENT.parent), str(base / "image")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr


def test_a_missing_file_is_not_reported_as_a_missing_layer(base: Path) -> None:
    (base / "image").unlink()
    with pytest.raises(AssertionError, match=r"FileNotFoundError.*image"):
        attempt(base, ["namespace"])


# Forbids one system call, as a container or AppArmor may, then starts the supervisor.
FORBID = """
import errno, os, sys
sys.path.insert(0, sys.argv[1])
import confinement as c
c._check(c._libc.prctl(c.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
call = int(sys.argv[2])
refuse, allow = (c.RETURN, 0, 0, c.REFUSE | errno.EACCES), (c.RETURN, 0, 0, c.ALLOW)
c._filter = lambda **_: [(c.LOAD, 0, 0, 0), (c.IF_EQUAL, 0, 1, call), refuse, allow]
c._use_seccomp(can_answer=False)
os.execv(sys.executable, [sys.executable, "-IS", *sys.argv[3:]])
"""
MOUNT, UNSHARE, LANDLOCK = 165, 272, 444


@pytest.mark.parametrize(
    ("forbidden", "held"),
    [
        # Ubuntu's AppArmor permits a user namespace but no mount in it.
        (MOUNT, ["landlock", "seccomp"]),
        (UNSHARE, ["landlock", "seccomp"]),
        (LANDLOCK, ["namespace", "seccomp"]),
    ],
)
def test_what_a_computer_does_not_have_is_left_out_and_the_rest_holds(
    base: Path, forbidden: int, held: list[str]
) -> None:
    needs("namespace", "landlock", "seccomp")
    before = listing(base / "out")
    record = base / "record.json"
    script = f"echo x > {base}/out/write; chmod 777 {base}/out/mode; echo x > {base}/image; id -u"
    confinement = json.dumps({"writable": [str(base / "image"), str(base / "folder")], "readable": [str(base)]})
    forbid = [sys.executable, "-IS", "-c", FORBID, str(CONFINEMENT.parent), str(forbidden)]
    kept, far = os.pipe()
    supervisor = [str(CONFINEMENT.parent / "supervisor.py"), str(record), str(kept), confinement]
    with subprocess.Popen(
        [*forbid, *supervisor, "/bin/sh", "-c", script],
        # Standard input is the lifeline; the kernel's output goes to standard error.
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[kept],
    ) as process:
        process.wait(timeout=PATIENCE_SECONDS)
        assert process.stderr
        printed = process.stderr.read()
    os.close(kept)
    os.close(far)
    assert json.loads(record.read_text())["confined_by"] == held
    assert listing(base / "out") == before
    assert (base / "image").read_text() == "x\n"
    assert printed.splitlines()[-1] == str(os.geteuid())


@pytest.mark.parametrize(("layers", "expected"), [([], "a key"), (["landlock"], "PermissionError")])
def test_a_listable_folder_shows_names_and_no_contents(layers: list[str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a key")
    code = f"""
import os, sys
sys.path.insert(0, {str(CONFINEMENT.parent)!r})
from confinement import confine
confine([], {layers!r}, listable=["/"])
assert os.listdir({str(tmp_path)!r}) == ["secret"]
try:
    print(open({str(tmp_path / "secret")!r}).read())
except OSError as error:
    print(type(error).__name__)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == expected
