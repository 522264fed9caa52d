"""Stored results of the experiment ``try``, for tests of screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.results.record import ResultRecord, encode_record
from lab.results.store import RECORD_NAME, ResultStore
from tests.unit.results.records import array, cell, record

STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.2)


def result(number: int, iops: Sequence[float] = STEADY, **changes: Any) -> ResultRecord:
    """A run of the experiment ``try`` at ``number`` minutes past ten, by default with six repeats."""
    cells = tuple(
        cell("raid5", "rand-read-4k", repeat, read_iops=value, raw_file="", predicted_iops=105.0)
        for repeat, value in enumerate(iops)
    )
    made = {
        "created_utc": f"2026-11-21T10:{number:02d}:00Z",
        "experiment": "try",
        "cells": cells,
        "arrays": (array("raid5", "raid5", 3),),
    }
    return record(f"20261121T10{number:02d}00Z-try", **(made | changes))


def keep(store: ResultStore, *records: ResultRecord) -> None:
    for each in records:
        folder = store.root / each.id
        folder.mkdir(parents=True)
        (folder / RECORD_NAME).write_bytes(encode_record(each))
