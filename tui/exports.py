"""Results as files beside where the app was started: the same bytes as the command line writes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import RequirementMissing, ResultError

if TYPE_CHECKING:
    from lab.results.store import ResultStore


class ExportKind(StrEnum):
    """What a result can be written as."""

    BUNDLE = "zip"
    """Everything, with fio's documents and checksums: ``raidlab export``, read back by ``raidlab results import``."""
    HTML = "html"
    """``raidlab report``."""
    CSV = "csv"
    MARKDOWN = "md"
    JSON = "json"


def export(store: ResultStore, result_id: str, kind: ExportKind, folder: Path) -> Path:
    """Write one result to ``folder`` and return the file. Raises ResultError if it cannot be read or written.

    A report also raises RequirementMissing without the extra ``report``.
    """
    from lab.host.files import write_file
    from lab.parts import added
    from lab.report.collected import collect, each_result
    from lab.report.tables import csv_of
    from lab.report.text import render_markdown
    from lab.report.written import html_report
    from lab.results.record import encode_record

    file = folder / f"{result_id}.{kind}"
    if kind is ExportKind.BUNDLE:
        export_file = added("export file")
        if export_file is None:
            raise RequirementMissing("this raidlab has no part that makes bundles", hint="install the whole of it")
        export_file(store, [result_id], file)
        return file
    if kind is ExportKind.HTML:
        write_file(file, html_report(collect(each_result([result_id], store))).encode())
        return file
    record = store.load(result_id)
    if kind is ExportKind.JSON:
        data = encode_record(record)
    else:
        text = csv_of(record) if kind is ExportKind.CSV else render_markdown(record)
        data = f"{text.rstrip()}\n".encode()
    try:
        file.write_bytes(data)
    except OSError as error:
        raise ResultError(
            f"{file} cannot be written: {error.strerror}", hint="start raidlab in a folder of your own"
        ) from error
    return file
