#!/usr/bin/python3 -IS
"""Permanently limit which files a process can read and write, before the process becomes the embedded kernel.

All code in the embedded kernel, including its root user and its drivers, can read the system's programs and settings
(SYSTEM, SETTINGS) and the files given to it, and can write only the files given for writing. Three layers of the host's
kernel enforce this. An ordinary user can use each of them, and all available layers are combined.

    namespace  a root directory that contains only these files, read-only and without devices; no capability is left
               (user_namespaces(7), pivot_root(2), mount_setattr(2), Linux 5.12). This is sufficient by itself. Network
               and System V IPC are private to the process. Its next child is the first process of a PID namespace
               (pid_namespaces(7))
    landlock   other files cannot be opened, created, removed or renamed; names can still be looked up. TCP ports and
               abstract sockets cannot be reached (Documentation/userspace-api/landlock.rst, Linux 5.13). Modes, owners
               and times are not covered, so there is a third layer
    seccomp    refuses the system calls that change a file without opening it for writing, those that send to a
               socket by its address, and io_uring (seccomp(2)). By itself it prevents neither reading nor writing

This file stands alone, like supervisor.py, and imports nothing from the lab. When it is run by itself, it prints JSON
that contains, for each layer, an empty string or the reason why this host does not provide the layer.
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
# Devices that programs open for writing, or from which they read random numbers. These devices store nothing.
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
# Installed software, and the list of the processor's features, by which the kernel chooses its parity routines.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    "/nix/store",
    "/gnu/store",
    "/proc/cpuinfo",
)
# Settings below /etc that programs in the guest look for. They are listed by name, because root may read keys in /etc.
SETTINGS = (
    *("DIR_COLORS", "alternatives", "bash.bashrc", "bash_completion", "bash_completion.d", "bashrc", "blkid.conf"),
    *("crypto-policies", "debian_version", "e2fsck.conf", "e2scrub.conf", "fuse.conf", "group", "host.conf", "hosts"),
    *("inputrc", "issue", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime"),
    *("login.defs", "lsb-release", "lvm", "magic", "magic.mime", "manpath.config", "mdadm", "mdadm.conf", "mime.types"),
    *("mke2fs.conf", "modprobe.d", "nanorc", "networks", "nsswitch.conf", "os-release", "passwd", "perl", "profile"),
    *("profile.d", "protocols", "python3", "redhat-release", "rpc", "services", "shells", "skel"),
    *("ssl/openssl.cnf", "pki/tls/openssl.cnf", "terminfo", "timezone", "udev", "vim", "vimrc", "xattr.conf"),
)
# Empty folders, in which the guest mounts its own file systems, or in which users look first.
EMPTY_FOLDERS = (
    *("/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp"),
    *("/var/cache", "/var/lib", "/var/log", "/var/spool", "/var/tmp"),
)
OLD_ROOT = "/.computer"
MOST_LINKS = 40

# linux/sched.h, linux/mount.h, sys/mount.h, fcntl.h
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
# Mounts, processes, the network (including abstract sockets) and System V IPC.
CLONE_ALL = CLONE_NEWNS | 0x20000000 | 0x40000000 | 0x08000000
MS_NOSUID, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x2, 0x1000, 0x4000, 0x40000, 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NODEV, AT_RECURSIVE, AT_FDCWD = 0x1, 0x4, 0x8000, -100
# linux/prctl.h, linux/capability.h
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITY_VERSION_3, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 0x20080522, 1, 2
# These numbers are the same on every architecture (asm-generic/unistd.h), except for the last (x86-64).
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT, SECCOMP_CALL = 442, 444, 445, 446, 317
# linux/landlock.h: access rights to files and folders, then the rights that each ABI can restrict.
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE, IOCTL_DEVICE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_FOLDER
CHANGE_FOLDER = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12))
WRITING_OF_ABI = {1: WRITE_FILE | CHANGE_FOLDER | 1 << 6 | 1 << 11, 2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEVICE}
TCP_SINCE_ABI, TCP = 4, 0b11
SCOPES_SINCE_ABI, SCOPES = 6, 0b11
# linux/audit.h, linux/seccomp.h, linux/bpf_common.h
AUDIT_ARCH_X86_64, X32_CALLS = 0xC000003E, 0x40000000
SET_MODE_FILTER, SPEC_ALLOW, ALLOW, REFUSE = 1, 4, 0x7FFF0000, 0x00050000
LOAD, MASK, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
# Calls that change a file by its name or through a read-only descriptor: truncate, creat, chmod, the chowns, utime(s),
# the xattrs and their successors (arch/x86/entry/syscalls/syscall_64.tbl).
CHANGES = (76, 85, 90, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466, 469)
FCHMOD, IO_URING_SETUP, OPENAT2 = 91, 425, 437
OPEN, OPENAT, IOCTL = 2, 257, 16
# connect, sendmsg, sendmmsg, and pidfd_getfd, which takes another program's socket. The kernel uses none of them.
REACHING = (42, 46, 307, 438)
SENDTO = 44
# ioctls of terminals and sockets, and of block devices ('T' and 0x12 in Documentation/userspace-api/ioctl). The kernel
# needs no others, and some of the file systems' ioctls change files.
IOCTL_KINDS = (0x5400, 0x1200)

_libc = ctypes.CDLL(None, use_errno=True)


class HalfConfined(OSError):
    """The namespace was created, but its contents were not.

    The process cannot leave the namespace. Only a new process can run without it.
    """


def confine(
    writable: Collection[str],
    layers: Collection[str] = LAYERS,
    readable: Collection[str] = (),
    devices: Collection[str] = (),
    listable: Collection[str] = (),
) -> list[str]:
    """Confine this process and all its descendants to these files and folders and to the system's own.

    Returns the layers in force. Layers that the host does not provide are skipped. ``readable`` files can be read in
    addition to the ``writable`` files, and may be missing. ``devices`` can be used in addition to DEVICES. The names in
    ``listable`` folders, and in all folders below them, can be listed. Raises OSError if a writable file is missing,
    and HalfConfined if the caller must fork a new process and confine that process without a namespace.
    """
    held: list[str] = []
    for path in writable:
        # Raise the error now, because a missing file must not look like a missing layer.
        os.stat(path)
    # The order of the layers matters, because Landlock forbids further mounts.
    for layer in filter(layers.__contains__, LAYERS):
        try:
            _lay(layer, writable, readable, held, devices, listable)
            held.append(layer)
        except HalfConfined:
            raise
        except OSError:
            continue
    return held


def reasons_against() -> dict[str, str]:
    """Return for each layer why this host does not provide it, or "" if it does. A child process tries each layer."""
    reasons = {}
    for layer in LAYERS:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _lay(layer, (), (), ())
            except OSError as error:
                os.write(write, (error.strerror or str(error)).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as answer:
            reasons[layer] = answer.read()
        os.waitpid(pid, 0)
    return reasons


def visible(readable: Iterable[str]) -> list[str]:
    """Return the paths that the guest sees, which are ``readable`` and the system's own files."""
    return [*SYSTEM, *(f"/etc/{name}" for name in SETTINGS), *readable]


def _lay(
    layer: str,
    writable: Collection[str],
    readable: Collection[str],
    held: Collection[str],
    devices: Collection[str] = (),
    listable: Collection[str] = (),
) -> None:
    """Apply one layer to this process, on top of those in ``held``. Raises OSError if the host does not provide it."""
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if layer == NAMESPACE:
        _use_namespace(writable, visible(readable), devices)
    elif layer == LANDLOCK:
        # The namespace's root contains nothing else.
        _use_landlock(writable, ["/"] if NAMESPACE in held else visible(readable), devices, listable)
    else:
        _use_seccomp(can_answer=NAMESPACE in held)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call for which the C library has no function."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *words))


def _use_namespace(writable: Collection[str], readable: Collection[str], devices: Collection[str]) -> None:
    user, group = os.geteuid(), os.getegid()
    # Root can still read other users' files. It bypasses write permissions only if it was given one of their files.
    is_others = any(os.stat(path).st_uid != user for path in writable)
    capabilities = 1 << CAP_DAC_READ_SEARCH | (1 << CAP_DAC_OVERRIDE if is_others else 0)
    try:
        _check(_libc.unshare(CLONE_ALL))
    except PermissionError:
        _check(_libc.unshare(CLONE_NEWUSER | CLONE_ALL))
        capabilities = 0
    try:
        if not capabilities:
            maps = ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")
            for name, text in maps:
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(text)
        _use_own_root(writable, readable, devices)
        _retain_capabilities(capabilities)
    except OSError as error:
        raise HalfConfined(error.errno, error.strerror) from error


def use_root(readable: Iterable[str]) -> None:
    """Create a root directory with only these files, each at its own path, and move the old root to OLD_ROOT."""
    # The mount point can be any folder that every host has.
    _mount("tmpfs", "/usr", MS_NOSUID, "tmpfs", b"mode=755,size=1m")
    os.mkdir(f"/usr{OLD_ROOT}")
    _check(_libc.pivot_root(b"/usr", os.fsencode(f"/usr{OLD_ROOT}")))
    os.chdir("/")
    for path in readable:
        _bind_mount(path)
    for folder in EMPTY_FOLDERS:
        os.makedirs(folder, exist_ok=True)
    if not os.path.lexists("/etc/mtab"):
        os.symlink("/proc/self/mounts", "/etc/mtab")


def leave_old_root() -> None:
    """Detach the old root, so that nothing in it can be reached."""
    _check(_libc.umount2(OLD_ROOT.encode(), MNT_DETACH))
    os.rmdir(OLD_ROOT)


def _use_own_root(writable: Collection[str], readable: Collection[str], more_devices: Collection[str]) -> None:
    # First stop the propagation of mounts to the host's own namespace.
    _mount("none", "/", MS_REC | MS_PRIVATE)
    use_root(readable)
    devices = [path for path in (*DEVICES, *more_devices) if _bind_mount(path)]
    places = [_bind_mount(path, is_own=True) for path in writable]
    leave_old_root()
    _set_mount("/", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0, AT_RECURSIVE)
    for path in places:
        _set_mount(path, 0, MOUNT_ATTR_RDONLY)
    for path in devices:
        _set_mount(path, 0, MOUNT_ATTR_NODEV)


def _bind_mount(path: str, *, is_own: bool = False) -> str:
    """Bind-mount a file or folder of the old root at the same path in the new root, and create the links on its path.

    Returns the path with all links resolved, or an empty string if the file is missing. An existing path is left alone
    unless it ``is_own``, in which case it becomes a separate mount.
    """
    here, parts, links = "/", path.split("/"), 0
    while parts:
        part = parts.pop(0)
        if part in ("", ".", ".."):
            here = os.path.dirname(here) if part == ".." else here
            continue
        here = os.path.join(here, part)
        try:
            mode = os.lstat(OLD_ROOT + here).st_mode
        except OSError:
            return ""
        if stat.S_ISLNK(mode):
            links += 1
            target = os.readlink(OLD_ROOT + here)
            if links > MOST_LINKS or target.startswith("/proc/"):
                return ""
            if not os.path.lexists(here):
                os.symlink(target, here)
            here = "/" if target.startswith("/") else os.path.dirname(here)
            parts = target.split("/") + parts
        elif not os.path.lexists(here):
            if stat.S_ISDIR(mode):
                os.mkdir(here)
            else:
                os.mknod(here)
    if is_own or not os.path.samestat(os.stat(here), os.stat(OLD_ROOT + here)):
        _mount(OLD_ROOT + here, here, MS_BIND | MS_REC)
    return here


def _mount(source: str, target: str, flags: int, kind: str = "none", options: bytes | None = None) -> None:
    names = (os.fsencode(word) for word in (source, target, kind))
    _check(_libc.mount(*names, ctypes.c_ulong(flags), options))


def _set_mount(path: str, switched_on: int, switched_off: int, flags: int = 0) -> None:
    """Set and clear attributes of a mount (mount_setattr(2), struct mount_attr)."""
    attributes = struct.pack("=QQQQ", switched_on, switched_off, 0, 0)
    _call(MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))


def _retain_capabilities(capabilities: int) -> None:
    """Drop all capabilities except these, so that programs run by root do not gain any others when they start."""
    for capability in range(64):
        if not capabilities >> capability & 1 and _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            number = ctypes.get_errno()
            if number != errno.EINVAL:
                raise OSError(number, os.strerror(number))
            # This number is beyond the last capability.
            break
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    sets = struct.pack("=6I", capabilities, capabilities, 0, 0, 0, 0)
    _check(_libc.capset(header, sets))


def _use_landlock(
    writable: Collection[str], readable: Collection[str], devices: Collection[str], listable: Collection[str]
) -> None:
    abi = _call(LANDLOCK_CREATE, None, 0, 1)
    handled = READING + sum(rights for since, rights in WRITING_OF_ABI.items() if since <= abi)
    # The struct has grown with the ABI, and a kernel rejects fields that it does not know.
    words = [handled]
    words += [TCP] if abi >= TCP_SINCE_ABI else []
    words += [SCOPES] if abi >= SCOPES_SINCE_ABI else []
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = _call(LANDLOCK_CREATE, attributes, len(attributes), 0)
    writing = WRITE_FILE | TRUNCATE | CHANGE_FOLDER
    try:
        changing = READING | writing
        given = ((readable, READING), ((*writable, *DEVICES), changing), (devices, changing | IOCTL_DEVICE))
        for paths, rights in (*given, (listable, READ_FOLDER)):
            for path in filter(os.path.exists, paths):
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    of_folders = 0 if stat.S_ISDIR(os.fstat(fd).st_mode) else CHANGE_FOLDER | READ_FOLDER
                    _call(LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights & handled & ~of_folders, fd), 0)
                finally:
                    os.close(fd)
        _call(LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _use_seccomp(*, can_answer: bool) -> None:
    if os.uname().machine != "x86_64":
        raise OSError(errno.ENOSYS, "the filter supports only x86-64")
    program = b"".join(struct.pack("=HBBI", *line) for line in _filter(can_answer=can_answer))
    lines = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog contains the number of instructions and their address.
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(lines))
    _call(SECCOMP_CALL, SET_MODE_FILTER, SPEC_ALLOW, header)


def _filter(*, can_answer: bool = False) -> Iterable[tuple[int, int, int, int]]:
    """Yield the filter in classic BPF: opcode, jump if true, jump if false, operand. Source: seccomp(2).

    With ``can_answer``, the kernel's management console may send answers, because no other program's socket is visible.
    The filter can see whether a call passes an address, but not to which socket the address refers.

    The filter does not affect the system calls of a guest program. The embedded kernel intercepts them before this
    filter (ptrace(2), PTRACE_SYSEMU), or with its own filter, whose result overrides a refusal (SECCOMP_RET_TRAP).
    """
    # These are offsets in struct seccomp_data of the call, the architecture, the lower halves of the second and third
    # arguments, and the fifth argument, which is an address (both halves).
    number, arch, second, third, fifth = 0, 4, 24, 32, 48
    refuse = REFUSE | errno.EPERM
    yield from ((LOAD, 0, 0, arch), (IF_EQUAL, 1, 0, AUDIT_ARCH_X86_64), (RETURN, 0, 0, refuse))
    yield from ((LOAD, 0, 0, number), (IF_AT_LEAST, 0, 1, X32_CALLS), (RETURN, 0, 0, refuse))
    answers = {**dict.fromkeys(CHANGES, errno.EROFS), **dict.fromkeys((*REACHING, IO_URING_SETUP), errno.EPERM)}
    # The C library knows that this call is new, and falls back to an older one.
    answers[OPENAT2] = errno.ENOSYS
    # The embedded kernel changes the mode of its memory file, and exits if that fails, so report success.
    answers[FCHMOD] = 0
    for call, answer in answers.items():
        yield from ((IF_EQUAL, 0, 1, call), (RETURN, 0, 0, REFUSE | answer))
    if not can_answer:
        yield from ((IF_EQUAL, 0, 6, SENDTO), (LOAD, 0, 0, fifth), (IF_EQUAL, 0, 3, 0), (LOAD, 0, 0, fifth + 4))
        yield from ((IF_EQUAL, 0, 1, 0), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, refuse))
    # Before ABI 3, Landlock allows O_TRUNC on a file opened only for reading, or with access mode 3 (open(2)).
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
