"""fio's output as captured (data/README.md), cut, and replaced by garbage."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError, WorkloadError
from lab.workloads.fio_output import DocumentSplitter, parse_figures

DATA = Path(__file__).with_name("data")


def captured(name: str) -> str:
    return (DATA / name).read_text()


def test_a_mix_keeps_its_directions_apart() -> None:
    figures = parse_figures(captured("mix.stdout"))
    assert figures.reads is not None
    assert figures.writes is not None
    assert figures.job_name == "rand-mix-4k"
    assert figures.fio_version == "fio-3.33"
    assert figures.reads.bandwidth_bytes_per_second == 214_258_593
    assert figures.reads.total_ios == 20_971
    assert figures.reads.runtime_seconds == 0.401
    assert (figures.reads.p50_seconds, figures.reads.p999_seconds) == (100_864e-9, 246_784e-9)
    assert figures.writes.p99_seconds == 209_920e-9
    assert figures.reads.latency_kind == "total"
    assert figures.fio_user_cpu_percent == 1.875
    assert json.loads(figures.raw_json)["jobs"][0]["jobname"] == "rand-mix-4k"


def test_the_last_of_many_documents_counts_and_a_direction_without_io_is_none() -> None:
    figures = parse_figures(captured("status-interval.stdout"))
    assert figures.reads is not None
    assert figures.reads.total_ios == 71_499
    assert figures.writes is None


def test_completion_latency_stands_in_for_total() -> None:
    figures = parse_figures(captured("note-before-json.stdout"))
    assert figures.reads is not None
    assert figures.reads.latency_kind == "completion"
    assert figures.reads.p50_seconds is not None
    assert "queue depth will be capped at 1" in figures.notes[0]


def test_an_interrupted_job_counts_only_if_that_is_accepted() -> None:
    with pytest.raises(WorkloadError, match="status 128: fio: terminating on signal 2"):
        parse_figures(captured("sigint.stdout"), exit_status=128)
    figures = parse_figures(captured("sigint.stdout"), exit_status=128, accept_interrupted=True)
    assert figures.interrupted
    assert figures.reads is not None
    assert figures.reads.total_ios == 52_037


def test_verify_only_wrote_nothing() -> None:
    figures = parse_figures(captured("verify-only.stdout"))
    assert figures.writes is None
    assert figures.reads is not None
    assert figures.reads.io_bytes == 16 * 2**20


def test_backlog_reads_are_rated_over_the_writes_time() -> None:
    figures = parse_figures(captured("verify-backlog.stdout"))
    assert figures.reads is not None
    assert figures.reads.iops == pytest.approx(14_336 / 0.4)


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("verify-corrupt", 1, "data differ from what was written.*verify failed at file"),
        ("no-space", 1, "No space left on device"),
        ("no-directory", 1, "status 1: fio: /nonexistent is not a directory"),
    ],
)
def test_failures_say_why(name: str, status: int, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse_figures(captured(f"{name}.stdout"), exit_status=status, stderr_text=captured(f"{name}.stderr"))


def test_an_error_inside_the_json_counts_even_with_status_0() -> None:
    with pytest.raises(WorkloadError, match="error 28"):
        parse_figures(captured("no-space.stdout"))


def test_entries_that_nobody_summed_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"jobs-unsummed.*2 entries"):
        parse_figures(captured("no-group-reporting.stdout"))


@pytest.mark.parametrize(
    "text", ["", "\n", "fio: hello\n", "[]", "{", "{\n", "{\n}\n", '{\n"jobs": []\n}\n', "}\n{}\n"]
)
def test_no_result_is_never_a_figure(text: str) -> None:
    with pytest.raises(WorkloadError):
        parse_figures(text)


def test_a_cut_document_is_told_from_none() -> None:
    text = captured("status-interval.stdout")
    with pytest.raises(WorkloadError, match="cut off"):
        parse_figures(text[: len(text) - 500])


@given(st.data())
def test_cut_or_scribbled_output_is_figures_or_a_lab_error(data: st.DataObject) -> None:
    text = captured(data.draw(st.sampled_from(["mix.stdout", "no-space.stdout", "verify-only.stdout"])))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    scribble = data.draw(st.text(max_size=20))
    with contextlib.suppress(LabError):
        parse_figures(text[:start] + scribble + text[end:])


@given(st.text(), st.integers(-3, 300))
def test_garbage_is_a_lab_error(text: str, status: int) -> None:
    with pytest.raises(LabError):
        parse_figures("{\n" + text + "\n}\n", exit_status=status)


@given(st.binary(), st.binary())
def test_bytes_of_any_kind_are_a_lab_error(out: bytes, err: bytes) -> None:
    with pytest.raises(LabError):
        parse_figures(out.decode(errors="surrogateescape"), stderr_text=err.decode(errors="replace"))


@given(st.lists(st.integers(1, 5000)))
def test_the_splitter_does_not_care_where_chunks_end(cuts: list[int]) -> None:
    text = captured("sigint.stdout")
    whole = DocumentSplitter()
    expected = [*whole.feed(text), *whole.finish()]
    splitter, rest = DocumentSplitter(), text
    found: list[str] = []
    for cut in cuts:
        found += splitter.feed(rest[:cut])
        rest = rest[cut:]
    found += [*splitter.feed(rest), *splitter.finish()]
    assert found == expected
    assert len(found) == 5
    assert splitter.notes == ("fio: terminating on signal 2",)


def test_a_torn_document_does_not_take_the_next_with_it() -> None:
    text = captured("mix.stdout")
    splitter = DocumentSplitter()
    found = list(splitter.feed(text[:400] + "\n" + text))
    assert len(found) == 1
    assert splitter.torn_documents == 1


def test_serial_line_ends_are_understood() -> None:
    assert (
        parse_figures(captured("mix.stdout").replace("\n", "\r\n")).reads == parse_figures(captured("mix.stdout")).reads
    )
