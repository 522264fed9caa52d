from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import SpecError
from lab.gates.decoding import MOST_BYTES, parse_bytes
from lab.units import GIB, KIB, MIB, format_bytes, human_bytes, human_rate, human_seconds

sizes = st.one_of(
    st.integers(0, MOST_BYTES), st.builds(lambda n, p: n << p, st.integers(1, 5000), st.sampled_from([10, 20, 30, 40]))
)


@given(sizes)
def test_formatted_sizes_parse_to_the_same_value(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (1023, "1023"), (1025, "1025"), (KIB, "1K"), (1023 * MIB, "1023M"), (2 * GIB, "2G"), (1024 * GIB, "1T")],
)
def test_sizes_are_written_in_the_largest_unit_that_divides_them(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [("500M", 500 * MIB), ("64 KiB", 64 * KIB), (" 2g ", 2 * GIB), ("1TB", 1024 * GIB), ("7B", 7), (4096, 4096)],
)
def test_sizes_as_people_write_them(text: str | int, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "M", "1.5G", "-1M", "10X", "5 MM", "1e6"])
def test_invalid_sizes_are_rejected(text: str) -> None:
    with pytest.raises(SpecError, match=r"^chunk "):
        parse_bytes(text, what="chunk")


HUMAN: dict[Callable[[float], str], dict[float, str]] = {
    human_bytes: {0: "0 B", 1023: "1023 B", 1024: "1 KiB", 500 * MIB: "500 MiB", 2.1 * GIB: "2.1 GiB", -2048: "-2 KiB"},
    human_seconds: {
        **{0.0: "0 ns", 2e-7: "200 ns", 0.00085: "850 µs", 0.0133: "13.3 ms", 4.2: "4.2 s"},
        **{60.0: "1:00 min", 185.9: "3:05 min", 0.9997: "1 s", 0.0009996: "1 ms"},
    },
    human_rate: {75.2: "75", 999: "999", 1000: "1.0k", 82900: "82.9k"},
}


@pytest.mark.parametrize("form", HUMAN)
def test_figures_for_people(form: Callable[[float], str]) -> None:
    assert {value: form(value) for value in HUMAN[form]} == HUMAN[form]
