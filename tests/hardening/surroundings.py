"""Files of other users in the folders where a command runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.hardening.stored import measured
from tests.hardening.workbench import RAIDLAB, Bench, expect, promise
from tests.traps import Traps, lay_traps

_PATIENCE_SECONDS = 120.0
_PROCESS_IDS = 3000
SWEEP = """\
format_version = 2
id = "tiny"
title = "A tiny sweep"
question = "Does it run?"
[disks]
kind = "file"
size_bytes = "32M"
[array]
assume_clean = true
[[jobs]]
workload = "rand-read-4k"
runtime_seconds = 2.0
warmup_seconds = 0.5
file_bytes = "1M"
[sweep]
level = ["raid0"]
members = [2]
queue_depth = [1, 2]
"""
# Of a disk that was never written too: what matters is who runs, not what is measured.
ALLOW = ("--allow", "never-written")


@contextmanager
def _running(bench: Bench, *words: str, traps: Traps | None = None) -> Iterator[subprocess.Popen[str]]:
    """The command, ended in the end if it has not ended by itself."""
    process = subprocess.Popen(
        [RAIDLAB, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=traps.environment(bench.environment()) if traps else bench.environment(),
        cwd=bench.folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE_SECONDS)


def _none_sprung(traps: Traps) -> None:
    expect(not traps.sprung(), f"imported: {traps.sprung()}")


@promise("a tab of serve imports nothing of the folder, the environment or the home it was started in")
def _(bench: Bench) -> None:
    traps = lay_traps(bench.folder)
    with _running(bench, "serve", "--port", "0", traps=traps) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        expect(address.startswith("http://127.0.0.1:"), f"no address: {address!r}")
        painted = asyncio.run(_first_picture(address))
        _none_sprung(traps)
        expect(len(painted) > 500, f"the app has painted no picture: {painted!r}")


async def _first_picture(address: str) -> bytes:
    """What a tab gets until the app has drawn its first screen."""
    import aiohttp

    found = b""
    async with aiohttp.ClientSession() as client, client.ws_connect(f"{address}ws?width=80&height=24") as tab:
        # An app that does not start sends nothing.
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                async for message in tab:
                    found += message.data if isinstance(message.data, bytes) else b""
                    if len(found) > 2000:
                        break
    return found


@promise("the processes of a sweep import nothing of the folder, the environment or the home", needs_machine=True)
def _(bench: Bench) -> None:
    traps = lay_traps(bench.folder)
    bench.file("tiny.toml", SWEEP)
    with _running(bench, "--json", "sweep", "tiny.toml", "--cluster", "local:1", *ALLOW, traps=traps) as process:
        out, err = process.communicate(timeout=_PATIENCE_SECONDS)
        expect(process.returncode == 0, err)
        expect(json.loads(out)["measured"] == 2, out)
    _none_sprung(traps)


@promise(
    "a sweep opens no page for other users: each of its processes listens once, for a certificate", needs_machine=True
)
def _(bench: Bench) -> None:
    bench.file("tiny.toml", SWEEP)
    with _running(bench, "--json", "sweep", "tiny.toml", "--cluster", "local:2", *ALLOW) as process:
        until = time.monotonic() + _PATIENCE_SECONDS
        progress: dict[str, Any] = {}
        while len(processes := progress.get("processes", {})) < 3:
            expect(time.monotonic() < until and process.poll() is None, "the sweep's processes do not come")
            for file in (bench.state / "sweeps" / "runs").glob("*/progress.json"):
                progress = json.loads(file.read_text())
            time.sleep(0.05)
        listening = _listening({process.pid, *processes.values()})
        expect(len(listening) == 3, f"{listening} of {processes}")
        for address, port in listening:
            expect(address == "0100007F", f"beyond loopback: {address}")
            expect(b"HTTP" not in _asked(port), f"port {port} answers HTTP")
        expect(not progress.get("dashboard"), "there is a dashboard")
        process.communicate(timeout=_PATIENCE_SECONDS)


def _listening(processes: set[int]) -> list[tuple[str, int]]:
    sockets = set()
    for pid in processes:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(str(link.readlink()))
            except OSError:
                continue
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    ours = [line[1].split(":") for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets]
    return [(address, int(port, 16)) for address, port in ours]


def _asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        line.settimeout(10)
        try:
            return line.recv(100)
        except OSError:
            return b""


@promise("a file that is written in a shared folder is a new one of mine, whatever somebody has left there")
def _(bench: Bench) -> None:
    bench.store(measured())
    folder = bench.folder / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    for number in range(os.getpid(), os.getpid() + _PROCESS_IDS):
        (folder / f".all.zip.{number}.tmp").write_bytes(b"theirs")
    (folder / "all.zip").write_bytes(b"theirs too")
    theirs = {each.stat().st_ino for each in folder.iterdir()}
    bench.run("export", "latest", "--to", str(folder / "all.zip")).worked()
    found = (folder / "all.zip").stat()
    expect(found.st_ino not in theirs and found.st_uid == os.geteuid(), "it is somebody else's file")
    expect(
        found.st_nlink == 1 and not found.st_mode & 0o022, f"others may write into it: {stat.filemode(found.st_mode)}"
    )
    expect(len(list(folder.iterdir())) == len(theirs), "something was left, or taken away")
    for name in ("r.html", "r.csv", "r.md"):
        (folder / name).symlink_to(bench.folder / "aim")
        bench.run("report", "latest", "-o", str(folder / name)).worked()
        expect(not (folder / name).is_symlink() and not (bench.folder / "aim").exists(), f"{name}: a link was followed")


@promise("a kernel, or a part of one, that other users may have written is not started")
def _(bench: Bench) -> None:
    folder = bench.folder / "cache" / "raidlab" / "kernels" / "virtual-time"
    (folder / "modules").mkdir(parents=True)
    started = bench.folder / "started"
    for name in ("linux", "release", "quick_clock.so", "modules/md.ko"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {started}\n")
        (folder / name).chmod(0o755)
    environment = {"XDG_CACHE_HOME": str(bench.folder / "cache")}
    chosen = str(folder / "linux")
    for place in (folder, folder / "linux", folder / "quick_clock.so", folder / "modules/md.ko", folder.parents[1]):
        mode = stat.S_IMODE(place.stat().st_mode)
        place.chmod(0o777)
        for target in ("uml:?time=virtual", f"uml:?time=virtual&kernel={chosen}"):
            done = bench.run("--on", target, "disks", environment=environment)
            done.was_refused(because=f"other users may write to {place}")
        if place != folder / "quick_clock.so":
            done = bench.run("--on", f"uml:?kernel={chosen}", "disks", environment=environment)
            done.was_refused(because="other users may write")
        place.chmod(mode)
    expect(not started.exists(), "it was started")
