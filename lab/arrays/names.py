"""Names of arrays and members, and where the kernel shows them."""

from __future__ import annotations

import re

from lab.errors import SpecError

_ARRAY = re.compile(r"md(?:0|[1-9]\d{0,2})")
_NODE = re.compile(r"/dev/[A-Za-z0-9][A-Za-z0-9._/:+-]*")


def is_array_name(name: str) -> bool:
    """Whether ``name`` is a kernel name such as md0: the one name that /dev, sysfs and diskstats share."""
    return bool(_ARRAY.fullmatch(name))


def is_device_node(node: str) -> bool:
    """Whether ``node`` is an absolute path under /dev without anything that a shell or mdadm could misread."""
    return bool(_NODE.fullmatch(node)) and "/../" not in node


def require_array_name(name: str) -> str:
    """Return ``name``. Raises SpecError unless it is an array name that the lab uses."""
    if not is_array_name(name):
        raise SpecError(f"'{name}' is not an array name", hint="write md and a number below 1000, such as md0")
    return name


def array_device(name: str) -> str:
    """The device node of an array: ``/dev/md0`` for ``md0``."""
    return f"/dev/{require_array_name(name)}"


def md_path(name: str, attribute: str = "") -> str:
    """Path of an attribute in the array's md folder (kernel: Documentation/admin-guide/md.rst)."""
    folder = f"/sys/block/{require_array_name(name)}/md"
    return f"{folder}/{attribute}" if attribute else folder


def node_of(kernel_name: str) -> str:
    """Device node of a kernel name; sysfs writes ``!`` where the node has ``/``."""
    return f"/dev/{kernel_name.replace('!', '/')}"


def kernel_name(node: str) -> str:
    """Kernel name of a device node: ``sdb`` for ``/dev/sdb``."""
    return node.removeprefix("/dev/").replace("/", "!")
