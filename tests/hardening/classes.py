"""Classes: what students hand in, and who copied it."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import msgspec

from lab.classroom.bundle import load_signer, write_bundle
from tests.hardening.stored import RAW, measured
from tests.hardening.workbench import Bench, expect, promise


@promise("a measurement that is handed in again with one space, other bytes or other figures is named as a copy")
def _(bench: Bench) -> None:
    folder = bench.folder / "class"
    folder.mkdir()
    honest = measured(has_raw=True)
    document = gzip.compress(b'{"jobs": [{"jobname": "x", "read": {"iops": 812.25}}]}')
    own = zipfile.ZipFile(bench.bundle("honest.zip", honest, {RAW: document}))
    record = own.read(f"results/{honest.id}/record.json")
    own.close()
    Path(bench.folder / "honest.zip").rename(folder / "honest.zip")
    tree = msgspec.json.decode(record)
    for cell in tree["cells"]:
        cell["started_utc"] = "2026-11-25T08:00:00Z"
        for section in ("reads", "writes"):
            if section in cell["figures"]:
                cell["figures"][section]["iops"] *= 1.07
                cell["figures"][section]["mean_seconds"] *= 0.93
    tree["created_utc"] = "2026-11-25T08:00:00Z"
    disguised = {
        "space": (record + b" ", document),
        "line-end": (record.rstrip(), document),
        "packed": (
            msgspec.json.encode(msgspec.json.decode(record)),
            gzip.compress(gzip.decompress(document) + b" ", 1),
        ),
        "figures": (msgspec.json.encode(tree), document),
    }
    for name, (text, raw) in disguised.items():
        files = {honest.id: {"record.json": text, RAW: raw}}
        data = write_bundle(files, load_signer(bench.folder / "keys" / f"{name}.pem"))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            expect(archive.testzip() is None, f"{name} is no bundle")
        (folder / f"{name}.zip").write_bytes(data)
        done = bench.run("class", str(folder), "--grades", str(bench.folder / "grades.csv")).worked()
        expect(f"{name}.zip" in done.err and "the same measurement" in done.err, f"{name}: {done}")
        expect(("somebody changed them" in done.err) is (name == "figures"), f"{name}: {done}")
        sheet = (bench.folder / "grades.csv").read_text()
        expect("a measurement (" in sheet, sheet[-400:])
        (folder / f"{name}.zip").unlink()
