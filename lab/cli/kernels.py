"""``raidlab kernels`` and ``raidlab mdadm`` list and fetch the versions that the lab's machines can use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.cli.arguments import flag
from lab.cli.context import current, table
from lab.machine.mdadm_versions import find_mdadm, mdadm_versions, packaged_mdadms
from lab.machine.package_sources import Packaged, fetch, fetchable
from lab.machine.root_images import root_images
from lab.machine.stock_kernels import find_stock_kernel, packaged_kernels, stock_kernels

app = App(name="kernels")
mdadm_app = App(name="mdadm")
All = Annotated[bool, flag("Also list versions that can be fetched (needs the network).", "--all")]


@app.command(name="list")
def list_kernels(*, all_: All = False) -> None:
    """List the kernels that 'qemu:' can start, the newest first."""
    here = [(kernel.release, kernel.image) for kernel in stock_kernels()]
    _list(packaged_kernels(), here, ("kernel", "where", "image, or command"), "release", is_all=all_)


@app.command(name="images")
def list_images() -> None:
    """List the root images that 'qemu:?root=IMAGE' can start ('make root-image ARCH=arm64' builds one)."""
    images = list(root_images())
    rows = [(each.name, each.facts.release, each.facts.system, str(each.folder)) for each in images]
    current().out(
        [{"name": each.name, "folder": str(each.folder), **msgspec.to_builtins(each.facts)} for each in images],
        table(("root image", "kernel", "system", "folder"), rows),
    )


@app.command(name="get")
def get(
    release: Annotated[str, Parameter(help="A release or a prefix, such as 6.12. The newest match is fetched.")],
) -> None:
    """Fetch a distribution's kernel from this computer's package sources, without root.

    apt verifies the kernel. It takes 80 to 250 MB in the cache folder, and nothing else on this computer changes.
    """
    kernel = find_stock_kernel(_fetch(packaged_kernels(), release))
    current().out(
        {"release": kernel.release, "image": str(kernel.image), "modules": str(kernel.modules)},
        f"{kernel.release} is ready: raidlab --on 'qemu:?kernel={kernel.release}'",
    )


@mdadm_app.command(name="list")
def list_mdadms(*, all_: All = False) -> None:
    """List the versions of mdadm that machines can use instead of this computer's own, the newest first."""
    here = [(folder.name, folder) for folder in mdadm_versions()]
    _list(packaged_mdadms(), here, ("mdadm", "where", "folder, or command"), "version", is_all=all_)


@mdadm_app.command(name="get")
def get_mdadm(
    version: Annotated[str, Parameter(help="A version or a prefix, such as 4.4. The newest match is fetched.")],
) -> None:
    """Fetch a version of mdadm with its libraries from this computer's package sources, without root.

    apt verifies the packages. They are stored in the cache folder, and only the lab's machines use them, with --on
    'uml:?mdadm=4.4'.
    """
    found = _fetch(packaged_mdadms(), version)
    current().out(
        {"version": found, "folder": str(find_mdadm(found))},
        f"mdadm {found} is ready: raidlab --on 'uml:?mdadm={found}'",
    )


def _list(kind: Packaged, here: Sequence[tuple[str, Path]], columns: Sequence[str], key: str, *, is_all: bool) -> None:
    context = current()
    rows = [(version, "here", str(path)) for version, path in here]
    known = {version for version, _ in here}
    for version, suite in fetchable(kind, context.host.processes, context.host.files) if is_all else ():
        if version not in known:
            known.add(version)
            rows.append((version, f"in {suite}", f"{kind.command} get {version}"))
    value = [{key: version, "where": where, "from": source} for version, where, source in rows]
    context.out(value, table(columns, rows))


def _fetch(kind: Packaged, version: str) -> str:
    context = current()
    return fetch(kind, version, context.host.processes, context.host.files, on_progress=context.narrator.notice)
