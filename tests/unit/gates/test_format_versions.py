"""Files say in which format they are: whatever stands there, the message is short and no program stumbles."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress

import msgspec
import pytest

import lab
from lab.drills.case import CaseRecord
from lab.gates.decoding import decode_json
from lab.lessons.engine import Progress
from lab.results.record import ResultRecord

NAMES = ("format_version", "schema_version")
PRINTED = {"DoctorReport"}
"""Written only, for others to read."""


def versioned() -> list[type[msgspec.Struct]]:
    """All kinds of file that say in which format they are."""
    for module in pkgutil.walk_packages(lab.__path__, "lab."):
        # What runs elsewhere is a program, and a part may lack what it needs.
        if not module.name.endswith(("_program", "__main__", "agent", "plain_stack")):
            with suppress(ModuleNotFoundError):
                importlib.import_module(module.name)
    found, left = [], [msgspec.Struct]
    while left:
        left += (below := left.pop().__subclasses__())
        found += [each for each in below if set(NAMES) & {*each.__struct_fields__}]
    return [each for each in found if each.__module__.startswith("lab.")]


def test_every_format_is_a_bounded_number() -> None:
    kinds = versioned()
    assert {CaseRecord, Progress, ResultRecord} <= {*kinds}
    for kind in kinds:
        (field,) = [each for each in msgspec.structs.fields(kind) if each.name in NAMES]
        told = msgspec.inspect.type_info(field.type)
        is_bounded = isinstance(told, msgspec.inspect.LiteralType) or getattr(told, "le", None) is not None
        assert is_bounded or kind.__name__ in PRINTED, f"{kind.__module__}.{kind.__name__}"


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "-1", "1e999", "1.5"])
def test_a_number_that_is_no_format_is_told_in_few_words(number: str) -> None:
    text = f'{{"format_version": {number}, "lesson": "x", "began_utc": ""}}'
    with pytest.raises(msgspec.MsgspecError) as caught:
        decode_json(text.encode(), Progress)
    assert len(str(caught.value)) < 120
