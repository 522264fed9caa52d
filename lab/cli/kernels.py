"""``raidlab kernels``: the distribution kernels and root images that ``qemu:`` can start, and fetching kernels."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.cli.context import current, out, out_json, table
from lab.machine.kernel_packages import fetch_kernel, fetchable
from lab.machine.root_images import root_images
from lab.machine.stock_kernels import stock_kernels

app = App(name="kernels")


@app.command(name="list")
def list_kernels(
    *, all_: Annotated[bool, Parameter(name="--all", help="Also those that can be fetched; needs the network.")] = False
) -> int:
    """List the kernels that 'qemu:' can start, the newest first."""
    context = current()
    here = stock_kernels()
    rows = [(kernel.release, "here", str(kernel.image)) for kernel in here]
    known = {kernel.release for kernel in here}
    for package in fetchable(context.host.processes, context.host.files) if all_ else ():
        if package.release not in known:
            known.add(package.release)
            rows.append((package.release, f"in {package.suite}", f"raidlab kernels get {package.release}"))
    if context.json:
        out_json([{"release": release, "where": where, "from": source} for release, where, source in rows])
    else:
        out(table(("kernel", "where", "image, or command"), rows))
    return 0


@app.command(name="images")
def list_images() -> int:
    """List the root images that 'qemu:?root=IMAGE' can start; 'make root-image ARCH=arm64' builds one."""
    images = list(root_images())
    if current().json:
        out_json(
            [{"name": each.name, "folder": str(each.folder), **msgspec.to_builtins(each.facts)} for each in images]
        )
    else:
        rows = [(each.name, each.facts.release, each.facts.system, str(each.folder)) for each in images]
        out(table(("root image", "kernel", "system", "folder"), rows))
    return 0


@app.command(name="get")
def get(
    release: Annotated[str, Parameter(help="A release or a prefix, such as 6.12: the newest that matches is fetched.")],
) -> int:
    """Fetch a distribution's kernel from this computer's package sources, without root.

    apt verifies it. It is stored in the cache folder, 80 to 250 MB, and nothing else on this computer changes.
    """
    context = current()
    kernel = fetch_kernel(release, context.host.processes, context.host.files, on_progress=context.narrator.notice)
    if context.json:
        out_json({"release": kernel.release, "image": str(kernel.image), "modules": str(kernel.modules)})
    else:
        out(f"{kernel.release} is ready: raidlab --on 'qemu:?kernel={kernel.release}'")
    return 0
