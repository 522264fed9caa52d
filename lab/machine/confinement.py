#!/usr/bin/python3 -IS
"""Takes a process's write access to the computer's files away, for good, before it becomes the embedded kernel.

The promise that is kept here: whatever runs in the embedded kernel, root and drivers of its own included, changes
nothing on the computer but the files that it was given. Three layers of the computer's kernel hold it, each of which
an ordinary user can lay on; those that a computer has are laid one over the other.

    namespace  a mount namespace in which all is read-only and no device can be opened; then no capability is left
               (user_namespaces(7), mount_setattr(2), Linux 5.12). Holds by itself. The process's next child is the
               first of a process namespace (pid_namespaces(7))
    landlock   no file is opened for writing, made, removed or renamed, no TCP port and abstract socket reached
               (Documentation/userspace-api/landlock.rst, Linux 5.13). Says nothing of modes, owners and times, hence:
    seccomp    the system calls that change a file without opening it for writing are refused, and so are connect(2)
               and io_uring (seccomp(2)). By itself it keeps nobody from writing

A stand-alone file beside the supervisor. Run by itself, it tells as JSON which layers this computer has: for each an
empty text, or why not.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NAMESPACE, LANDLOCK, SECCOMP = "namespace", "landlock", "seccomp"
LAYERS = (NAMESPACE, LANDLOCK, SECCOMP)
# What programs open for writing, or read chance from; nothing is kept there.
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

# linux/sched.h, linux/mount.h, sys/mount.h, fcntl.h
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NODEV, AT_RECURSIVE, AT_FDCWD = 0x1, 0x4, 0x8000, -100
# linux/prctl.h, linux/capability.h
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITY_VERSION_3, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 0x20080522, 1, 2
# The same numbers on every architecture (asm-generic/unistd.h), but for the last (x86-64).
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT, SECCOMP_CALL = 442, 444, 445, 446, 317
# linux/landlock.h: what a file, and what a folder, may be allowed; then what each ABI can restrict.
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGE_FOLDER = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12))
WRITING_OF_ABI = {1: WRITE_FILE | CHANGE_FOLDER | 1 << 6 | 1 << 11, 2: 1 << 13, 3: TRUNCATE, 5: 1 << 15}
TCP_SINCE_ABI, TCP = 4, 0b11
SCOPES_SINCE_ABI, SCOPES = 6, 0b11
# linux/audit.h, linux/seccomp.h, linux/bpf_common.h
AUDIT_ARCH_X86_64, X32_CALLS = 0xC000003E, 0x40000000
SET_MODE_FILTER, SPEC_ALLOW, ALLOW, REFUSE = 1, 4, 0x7FFF0000, 0x00050000
LOAD, MASK, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
# arch/x86/entry/syscalls/syscall_64.tbl: what changes a file by its name, or through a descriptor that only reads:
# truncate, creat, chmod, the chowns, utime(s), the xattrs and their descendants.
CHANGES = (76, 85, 90, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466, 469)
FCHMOD, CONNECT, IO_URING_SETUP, OPENAT2 = 91, 42, 425, 437
OPEN, OPENAT, IOCTL = 2, 257, 16
# Numbers of terminals and sockets, and of block devices ('T' and 0x12 in Documentation/userspace-api/ioctl): the kernel
# needs no others, and file systems have some that change files.
IOCTL_KINDS = (0x5400, 0x1200)

_libc = ctypes.CDLL(None, use_errno=True)


class HalfConfined(OSError):
    """The namespace was made, but not what is to be in it. Only a new process is without it again."""


def confine(writable: Collection[str], layers: Collection[str] = LAYERS) -> list[str]:
    """Confine this process, and all that it will start, to writing these files and folders.

    Returns the layers that hold; a layer that the computer does not have is left out. Raises OSError if a file is
    missing, HalfConfined if the process is to be forked anew and confined without a namespace.
    """
    held = []
    for path in writable:
        # What is wrong with it shall not be taken for what the computer does not have.
        os.stat(path)
    # In this order: Landlock allows no mount any more.
    for layer in filter(layers.__contains__, LAYERS):
        try:
            _lay(layer, writable)
            held.append(layer)
        except HalfConfined:
            raise
        except OSError:
            continue
    return held


def reasons_against() -> dict[str, str]:
    """For each layer why this computer does not have it, empty if it has; each is tried by a process that then ends."""
    reasons = {}
    for layer in LAYERS:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _lay(layer, ())
            except OSError as error:
                os.write(write, (error.strerror or str(error)).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as answer:
            reasons[layer] = answer.read()
        os.waitpid(pid, 0)
    return reasons


def _lay(layer: str, writable: Collection[str]) -> None:
    """Lay one layer on this process. Raises OSError if the computer does not have it."""
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    {NAMESPACE: _use_namespace, LANDLOCK: _use_landlock, SECCOMP: _use_seccomp}[layer](writable)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _call(number: int, *arguments: int | bytes | None) -> int:
    """A system call that the C library has no function for."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *words))


def _use_namespace(writable: Collection[str]) -> None:
    user, group = os.geteuid(), os.getegid()
    # Root goes on reading what is others', and writes past their rights only where it was given a file of theirs.
    is_others = any(os.stat(path).st_uid != user for path in writable)
    kept = 1 << CAP_DAC_READ_SEARCH | (1 << CAP_DAC_OVERRIDE if is_others else 0)
    try:
        _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWPID))
    except PermissionError:
        _check(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID))
        kept = 0
    try:
        if not kept:
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(text)
        # First cut off from the computer's own, where a mount would otherwise show too.
        _mount("none", "/", MS_REC | MS_PRIVATE)
        devices = [path for path in DEVICES if os.path.exists(path)]
        for path in (*writable, *devices):
            _mount(path, path, MS_BIND)
        _set_mount("/", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0, AT_RECURSIVE)
        for path in writable:
            _set_mount(path, 0, MOUNT_ATTR_RDONLY)
        for path in devices:
            _set_mount(path, 0, MOUNT_ATTR_NODEV)
        _keep_capabilities(kept)
    except OSError as error:
        raise HalfConfined(error.errno, error.strerror) from error


def _mount(source: str, target: str, flags: int) -> None:
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None))


def _set_mount(path: str, switched_on: int, switched_off: int, flags: int = 0) -> None:
    """mount_setattr(2); its struct mount_attr: flags set, flags cleared, propagation, user namespace."""
    attributes = struct.pack("=QQQQ", switched_on, switched_off, 0, 0)
    _call(MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))


def _keep_capabilities(kept: int) -> None:
    """Lose all capabilities but these, also those that a program of root would be given at its start."""
    for capability in range(64):
        if not kept >> capability & 1 and _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            number = ctypes.get_errno()
            if number != errno.EINVAL:
                raise OSError(number, os.strerror(number))
            # The number after the last.
            break
    header, sets = struct.pack("=Ii", CAPABILITY_VERSION_3, 0), struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    _check(_libc.capset(header, sets))


def _use_landlock(writable: Collection[str]) -> None:
    abi = _call(LANDLOCK_CREATE, None, 0, 1)
    writing = sum(rights for since, rights in WRITING_OF_ABI.items() if since <= abi)
    # The struct grew with the ABI, and a kernel refuses what it does not know.
    words = [writing]
    words += [TCP] if abi >= TCP_SINCE_ABI else []
    words += [SCOPES] if abi >= SCOPES_SINCE_ABI else []
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = _call(LANDLOCK_CREATE, attributes, len(attributes), 0)
    try:
        for path in (*writable, *filter(os.path.exists, DEVICES)):
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
                allowed = (WRITE_FILE | TRUNCATE | (CHANGE_FOLDER if is_folder else 0)) & writing
                _call(LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", allowed, fd), 0)
            finally:
                os.close(fd)
        _call(LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _use_seccomp(_: Collection[str]) -> None:
    if os.uname().machine != "x86_64":
        raise OSError(errno.ENOSYS, "the filter is written for x86-64")
    program = b"".join(struct.pack("=HBBI", *line) for line in _filter())
    lines = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of lines, then where they are.
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(lines))
    _call(SECCOMP_CALL, SET_MODE_FILTER, SPEC_ALLOW, header)


def _filter() -> Iterable[tuple[int, int, int, int]]:
    """The filter in classic BPF: instruction, lines to skip if so and if not, operand. Source: seccomp(2).

    What a guest's program calls is not asked here: the embedded kernel takes its calls off it before (ptrace(2),
    PTRACE_SYSEMU), or by a filter of its own whose answer goes before refusal (SECCOMP_RET_TRAP).
    """
    # Where struct seccomp_data has the call, the architecture and the lower halves of the second and third argument.
    number, arch, second, third = 0, 4, 24, 32
    refuse = REFUSE | errno.EPERM
    yield from ((LOAD, 0, 0, arch), (IF_EQUAL, 1, 0, AUDIT_ARCH_X86_64), (RETURN, 0, 0, refuse))
    yield from ((LOAD, 0, 0, number), (IF_AT_LEAST, 0, 1, X32_CALLS), (RETURN, 0, 0, refuse))
    answers = {**dict.fromkeys(CHANGES, errno.EROFS), CONNECT: errno.EPERM, IO_URING_SETUP: errno.EPERM}
    # The C library asks for what it knows to be new, and takes the older call instead.
    answers[OPENAT2] = errno.ENOSYS
    # The kernel gives its memory's file another mode, and ends where it can't.
    answers[FCHMOD] = 0
    for call, answer in answers.items():
        yield from ((IF_EQUAL, 0, 1, call), (RETURN, 0, 0, REFUSE | answer))
    # Landlock before ABI 3 lets a file be emptied by opening it for reading, or for neither (open(2), access mode 3).
    emptying = ((MASK, 0, 0, 3 | os.O_TRUNC), (IF_EQUAL, 1, 0, os.O_TRUNC), (IF_EQUAL, 0, 1, 3 | os.O_TRUNC))
    for call, flags in ((OPEN, second), (OPENAT, third)):
        yield from ((IF_EQUAL, 0, 6, call), (LOAD, 0, 0, flags), *emptying)
        yield from ((RETURN, 0, 0, REFUSE | errno.EROFS), (RETURN, 0, 0, ALLOW))
    yield from ((IF_EQUAL, 1, 0, IOCTL), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, second), (MASK, 0, 0, 0xFF00))
    for kind in IOCTL_KINDS:
        yield from ((IF_EQUAL, 0, 1, kind), (RETURN, 0, 0, ALLOW))
    yield (RETURN, 0, 0, REFUSE | errno.ENOTTY)


if __name__ == "__main__":
    json.dump(reasons_against(), sys.stdout)
