"""``raidlab report`` for a sweep writes an HTML page, the rows as Parquet or CSV, or tables as text.

The page contains all figures, stored as columns, and draws its charts from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import msgspec

from lab.errors import RequirementMissing, ResultError, SpecError
from lab.gates.text import visible, visible_json
from lab.host.files import new_file, storage_error, write_file
from lab.machine import Host
from lab.report.page.blocks import (
    DASHES,
    SYMBOLS,
    Block,
    Facts,
    Fold,
    Fragment,
    Lines,
    OwnScripts,
    Page,
    PageSection,
    Plot,
    Remark,
    ShownTable,
    Stamp,
    Stamps,
    Trace,
    Verbatim,
    WarningBox,
    colour,
    number,
    plain,
    render_page,
)
from lab.report.page.build import explained
from lab.results.rows import grouped
from lab.results.store import ResultStore
from lab.store import LATEST
from lab.sweep.cells import SweepFolder, SweepStore
from lab.sweep.grid import (
    NOWHERE,
    OFF_THEORY,
    WORKLOAD,
    Axis,
    CellRow,
    FailedCell,
    Sensitivity,
    SweepGrid,
    SweepResult,
    chosen_axes,
    extreme_table,
    fixed_values,
    is_off,
    ranked_axes,
    sensitivities,
    sensitivity_table,
    summary_text,
    surprise_table,
)
from lab.tables import Column, Table, as_csv
from lab.units import counted, human_seconds

_TEXT, _NUMBER, _WHOLE, _TRUTH = "VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN"
_SQL_TYPES = {str: _TEXT, float: _NUMBER, int: _WHOLE, bool: _TRUTH}
_FIELDS = msgspec.structs.fields(CellRow)
COLUMNS = {"sweep": _TEXT, **{each.name: _SQL_TYPES[(get_args(each.type) or (each.type,))[0]] for each in _FIELDS}}
"""The DuckDB type of each column, in the order of the file: the sweep's id, then the fields of ``CellRow``."""
NULLABLE = tuple(each.name for each in _FIELDS if NoneType in get_args(each.type))
"""Columns in which NULL has a meaning. In any column, a figure that is not finite becomes NULL."""


def write_parquet(result: SweepResult, path: Path) -> None:
    """Write all rows to a Parquet file, even rows that reports leave out. After an error, ``path`` is unchanged.

    Raises RequirementMissing if duckdb is missing, and ResultError if the file cannot be written.
    """
    try:
        import duckdb
    except ImportError:
        raise RequirementMissing(
            "a Parquet file needs duckdb", hint="install it: pip install 'raidlab[classroom]'"
        ) from None
    try:
        with new_file(path) as part, duckdb.connect() as database:
            columns = ", ".join(f"{name} {_NUMBER if name in NULLABLE else kind}" for name, kind in COLUMNS.items())
            database.execute(f"CREATE TABLE cells ({columns})")
            if result.rows:
                database.register("batch", _batch(result))
                database.execute(f"INSERT INTO cells SELECT {', '.join(COLUMNS)} FROM batch")
            quoted = str(part).replace("'", "''")
            values = ", ".join(map(_value, COLUMNS))
            options = "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false"
            database.execute(f"COPY (SELECT {values} FROM cells) TO '{quoted}' ({options})")
    except duckdb.Error as error:
        hint = "make sure that its folder is writable and has space"
        raise ResultError(f"'{path}' cannot be written: {error}", hint=hint) from None
    except OSError as error:
        raise storage_error(f"'{path}' cannot be written", error) from error


def _value(name: str) -> str:
    """Return the SQL expression for a column. DuckDB would declare a bare column without NULLs as not nullable."""
    kind = COLUMNS[name]
    if kind == _NUMBER or name in NULLABLE:
        return f"CAST(CASE WHEN isfinite({name}) THEN {name} END AS {kind}) AS {name}"
    return name


def _batch(result: SweepResult) -> dict[str, Any]:
    """Return one array per column, with NaN for None. Inserting thousands of rows one by one would take a minute."""
    import numpy as np

    kinds: dict[str, Any] = {_NUMBER: np.float64, _WHOLE: np.int64, _TRUTH: np.bool_, _TEXT: object}
    return {
        name: np.array(
            [_cell(result, row, name) for row in result.rows], dtype=np.float64 if name in NULLABLE else kinds[kind]
        )
        for name, kind in COLUMNS.items()
    }


def _cell(result: SweepResult, row: CellRow, name: str) -> object:
    found = result.id if name == "sweep" else getattr(row, name)
    if found is None:
        return float("nan")
    return visible(found, lines=True) if isinstance(found, str) else found


PREFIX = "sweep:"
_KINDS = {".html": "html", ".htm": "html", ".parquet": "parquet", ".csv": "csv", ".md": "markdown", ".txt": "text"}


def report_sweep(
    names: Sequence[str], kind: str, output: Path | None, title: str, host: Host, *, is_alone: bool = True
) -> str | None:
    """Write the report that ``raidlab report`` requests. Return the text to print, or None if no name is a sweep.

    ``kind`` is the format, or empty to derive the format from the suffix of ``output``. The format ``json`` contains
    the complete SweepResult. Raises SpecError if the request is invalid, and ResultError if a file cannot be read or
    written.
    """
    folders = [found for name in names if (found := _found(name, host))]
    ending = output.suffix.lower() if output else ""
    if not folders:
        if ending == ".parquet" and not kind:
            raise _not_a_sweep(names, host)
        return None
    if len(names) > 1 or not is_alone:
        raise SpecError("a report covers one sweep and nothing else", hint=f"raidlab report {folders[0].id}")
    if output and not output.parent.is_dir():
        raise ResultError(f"there is no folder '{output.parent}'", hint="create it first")
    if not kind and ending and ending not in _KINDS:
        raise SpecError(f"'{output}': a sweep cannot be written as {ending}", hint=f"use {', '.join(_KINDS)}")
    kind = kind or _KINDS.get(ending, "text")
    result = folders[0].result()
    if title:
        result = msgspec.structs.replace(result, title=title)
    if kind in ("html", "parquet"):
        if output is None:
            raise SpecError(f"{kind} output of a sweep needs a file", hint=f"add --output sweep.{kind}")
        if kind == "parquet":
            write_parquet(result, output)
        else:
            write_file(output, sweep_page(result).encode())
        return f"{output}: {_count(result)}, {output.stat().st_size / 1e6:.1f} MB"
    match kind:
        case "csv":
            names = CellRow.__struct_fields__
            text = as_csv(names, [[getattr(row, name) for name in names] for row in result.rows])
        case "json":
            text = visible_json(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
        case _:
            is_running = folders[0].is_running
            text = f"{summary_text(result, is_markdown=kind == 'markdown', is_running=is_running)}\n"
    if output is None:
        return text.rstrip("\n")
    write_file(output, text.encode())
    return f"{output}: {_count(result)}"


def _found(name: str, host: Host) -> SweepFolder | None:
    store = SweepStore(host)
    if name.startswith(PREFIX):
        return store.find(name.removeprefix(PREFIX))
    ids = store.ids()
    begins_one = bool(name) and any(each.startswith(name) for each in ids)
    return store.find(name) if name in ids or (begins_one and not _is_result(name, host)) else None


def _is_result(name: str, host: Host) -> bool:
    return any(each.startswith(name) for each in ResultStore(host.state.results).ids())


def _not_a_sweep(names: Sequence[str], host: Host) -> SpecError:
    """Return the error for .parquet output of something other than a sweep. No name means the latest result."""
    name = names[0] if names else LATEST
    is_result = name == LATEST or _is_result(name, host)
    problem = f"'{name}' is a result, not a sweep" if is_result else f"there is no sweep '{name}'"
    return SpecError(
        f"{problem}, and only a sweep can be written as .parquet",
        hint="choose one of the sweeps that 'raidlab sweep' lists, or write the result as .csv",
    )


def _count(result: SweepResult) -> str:
    return f"{result.measured:,} of {counted(result.planned, 'cell')}"


_PATTERNS = ("", "/", "x", ".", "\\", "-", "+", "|")
_BAR_PIXELS, _FRAME_PIXELS = 26, 120
_FULL = 101.0
"""Maximum of the axis: 100 per cent and a margin."""


def sensitivity_plot(grid: SweepGrid) -> Plot:
    """Plot a stacked bar for each group of figures, with a segment for each axis."""
    # Plotly numbers the bars from the bottom.
    groups = sensitivities(grid)[::-1]
    # The sum may exceed 100 per cent, because shares overlap if combinations are missing.
    most = max((100 * sum(effect.share for effect in group.effects) for group in groups), default=0.0)
    layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": {
            "title": {"text": "percent of the variance; the rest up to 100 is interactions and noise"},
            "range": [0, number(1.02 * most) if most > _FULL else _FULL],
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.01,
            "yanchor": "bottom",
            "traceorder": "normal",
            "font": {"size": 12},
        },
        "yaxis": {
            "tickvals": list(range(len(groups))),
            "ticktext": [plain(group.title) for group in groups],
            "zeroline": False,
            "showgrid": False,
        },
    }
    traces = [_axis_bars(axis, place, groups) for place, axis in enumerate(grid.axes)]
    title = "Share of the variance of log IOPS that each axis explains alone"
    height = _FRAME_PIXELS + _BAR_PIXELS * len(groups)
    return Plot(title, "The table below shows the same figures.", traces, layout, height)


def _axis_bars(axis: Axis, place: int, groups: Sequence[Sensitivity]) -> Trace:
    shares = [{effect.axis: effect.share for effect in group.effects}.get(axis.name, 0.0) for group in groups]
    pattern = {"shape": _PATTERNS[place % len(_PATTERNS)], "fgcolor": "@paper", "fgopacity": 0.55, "size": 7}
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(axis.title),
        "y": list(range(len(groups))),
        "x": [number(100 * share) for share in shares],
        "marker": {"color": colour(place), "pattern": pattern | {"fillmode": "overlay"}},
        "hovertemplate": f"%{{x:.3~g}} %<extra>{plain(axis.title)}</extra>",
    }


PARTS = Path(__file__).with_name("parts")
_SCRIPTS = ("sweep.js", "charts.js", "cells.js")
_EXTREMES, _SURPRISES, _MOST_PAIRS, _OPEN_TABLES = 5, 30, 6, 4
_MOST_CONSOLES, _CONSOLE_CHARACTERS, _MOST_LABELS, _OPEN_LABELS = 50, 4000, 500, 5
_CELL_DIGITS = 12
_MULTIPLES = "One small chart for each value of two axes. All have the same scale."
_HEAT = "Speeds over two axes. The first buttons choose the axes that explain most of the variance."
_FOOTER = (
    "Points are medians of all repeats; lines through them are intervals that cover the true median. "
    "Shares of variance describe the cells of this sweep; they are not a significance test."
)


def sweep_page(result: SweepResult) -> str:
    """Return the HTML document. Raises RequirementMissing if the extra ``report`` is not installed."""
    grid = SweepGrid(result)
    surprises = (ShownTable(surprise_table(grid, _SURPRISES), is_titled=False),)
    is_predicted = any(row.predicted_iops for row in grid.rows)
    stamps = tuple(_stamps(grid))
    sections = (
        PageSection("multiples", "Small multiples", blocks=_charts(grid, "multiples", _MULTIPLES, 1)),
        PageSection("heat", "Heat maps", blocks=_charts(grid, "heat", _HEAT, 2)),
        PageSection("extremes", "Best and worst", blocks=tuple(_extremes(grid))),
        PageSection("surprises", "Surprises", blocks=surprises if is_predicted else ()),
        PageSection("sensitivity", "What matters", blocks=tuple(_sensitivity(grid))),
        PageSection("failed", "Failed cells", blocks=tuple(_failures(result.failed))),
        PageSection("cells", "All cells", blocks=(_file("cells"),) if grid.rows else ()),
        PageSection("stamps", "Warnings", blocks=(Stamps(stamps, is_titled=False),) if stamps else ()),
        PageSection("conditions", "Conditions of measurement", blocks=tuple(_conditions(grid))),
    )
    page = Page(
        visible(result.title) or "Sweep",
        visible(result.question),
        tuple(section for section in sections if section.blocks),
        badges=tuple(_badges(grid)),
        problems=tuple(map(visible, (*_warnings(grid), *grid.problems))),
        footer=_FOOTER,
        without_scripts="Charts and the table of all cells need JavaScript; the other tables do not.",
        own=OwnScripts(PARTS, _SCRIPTS, ("sweep.css",), page_data(grid), has_plots=bool(grid.axes)),
    )
    return render_page(page)


def _file(name: str) -> Fragment:
    return Fragment(PARTS / f"{name}.html")


def _charts(grid: SweepGrid, name: str, remark: str, least_axes: int) -> tuple[Block, ...]:
    names = [axis.title for axis in grid.settings if NOWHERE in axis.codes]
    nowhere = f" A cell without a value for {' or '.join(names)} appears at each value of that axis." if names else ""
    return (Remark(f"{remark}{nowhere}"), _file(name)) if len(grid.axes) >= least_axes else ()


def _extremes(grid: SweepGrid) -> Iterator[Block]:
    tables = tuple(extreme_table(grid, pair, _EXTREMES) for pair in grid.pairs)
    yield from tables[:_OPEN_TABLES]
    if more := tables[_OPEN_TABLES:]:
        yield Fold(f"{len(more)} more workloads and directions", more)


def _sensitivity(grid: SweepGrid) -> Iterator[Block]:
    if grid.axes:
        yield sensitivity_plot(grid)
        yield sensitivity_table(grid)


def _conditions(grid: SweepGrid) -> Iterator[Block]:
    yield Facts(tuple(_facts(grid)))
    if grid.rows:
        yield _computers(grid)
    if grid.result.toml:
        yield Fold("The sweep's file", (Verbatim(visible(grid.result.toml, lines=True)),))


def page_data(grid: SweepGrid) -> dict[str, Any]:
    """Return the data for the page's scripts: the axes with the code of each row, and one list per figure.

    Figures have four significant digits. Each distinct string is stored once, and rows refer to it by its index.
    """
    rows = grid.rows
    ranked = [axis.name for axis in ranked_axes(grid)]
    values = {axis.name: len(axis.values) for axis in grid.axes}
    by_rank = [*ranked, *(axis.name for axis in grid.axes if axis.name == WORKLOAD)]
    return {
        "axes": [
            {
                "name": axis.name,
                "title": axis.title,
                "labels": list(map(visible, axis.labels)),
                "words": list(map(visible, axis.words)),
                "numbers": list(axis.values) if axis.is_number else None,
                "doubles": axis.is_doubling,
                "codes": axis.codes,
            }
            for axis in grid.axes
        ],
        "multiples": chosen_axes(grid),
        # The axis with more values is horizontal, where there is more room.
        "pairs": [sorted(pair, key=lambda name: -values[name]) for pair in combinations(by_rank, 2)][:_MOST_PAIRS],
        "symbols": SYMBOLS,
        "dashes": DASHES,
        "off": OFF_THEORY,
        "direction": _coded([row.direction for row in rows]),
        "workload": _coded([row.workload for row in rows]),
        "computer": _coded([row.computer for row in rows]),
        "stamps": _coded([row.stamps for row in rows]),
        "cell": [row.cell[:_CELL_DIGITS] for row in rows],
        "repeats": [row.repeats for row in rows],
        "iops": _short([row.iops for row in rows]),
        "low": _short([row.iops_low for row in rows]),
        "high": _short([row.iops_high for row in rows]),
        "megabytes": _short([row.bytes_per_second / 1e6 for row in rows]),
        "mean": _short([None if row.mean_seconds is None else row.mean_seconds * 1e3 for row in rows]),
        "p99": _short([None if row.p99_seconds is None else row.p99_seconds * 1e3 for row in rows]),
        "predicted": _short([row.predicted_iops for row in rows]),
        "is_off": [number for number, row in enumerate(rows) if is_off(row)],
    }


def _coded(words: Sequence[str]) -> dict[str, Any]:
    places = {word: code for code, word in enumerate(dict.fromkeys(words))}
    return {"labels": list(map(visible, places)), "codes": [places[word] for word in words]}


def _short(values: Sequence[float | None]) -> list[float | int | None]:
    """Round to four significant digits. Whole numbers become int (``1234``), which is shorter in JSON."""
    short = [None if value is None else float(f"{value:.4g}") for value in values]
    return [int(value) if value is not None and value.is_integer() else value for value in short]


def _counts(grid: SweepGrid) -> str:
    result = grid.result
    measured = result.measured
    waiting = max(0, result.planned - measured - len(result.failed))
    words = f"{counted(result.planned, 'cell')} planned, {measured:,} measured, {len(result.failed):,} failed"
    return f"{words}, {waiting:,} not yet measured" if waiting else words


def _clock_words(rows: Sequence[CellRow]) -> str:
    virtual = len({row.cell for row in rows if row.is_virtual_time})
    if virtual == len({row.cell for row in rows}):
        return "virtual time"
    return f"virtual time in {counted(virtual, 'cell')}, real time in the others" if virtual else "real time"


def _badges(grid: SweepGrid) -> Iterator[str]:
    yield _counts(grid)
    if grid.rows:
        yield counted(len(grid.rows), "figure")
        yield _clock_words(grid.rows)
        yield counted(len({row.computer for row in grid.rows}), "computer")
        repeats = sorted({row.repeats for row in grid.rows})
        span = str(repeats[0]) if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
        yield f"{span} repeat{'s' if span != '1' else ''}"


def _warnings(grid: SweepGrid) -> Iterator[str]:
    if not grid.rows:
        yield "Nothing has been measured yet." if not grid.result.failed else "No cell could be measured."
        return
    by_clock = {row.computer for row in grid.rows if not row.is_virtual_time}
    if len(by_clock) > 1:
        yield (
            f"{len(by_clock)} computers measured in real time, so a difference between two cells may be a difference "
            "between computers. Figures in virtual time do not depend on the computer."
        )


def _facts(grid: SweepGrid) -> Iterator[tuple[str, str]]:
    result, rows = grid.result, grid.rows
    yield "sweep", visible(result.id)
    yield "begun (UTC)", visible(result.created_utc)
    yield "cells", _counts(grid)
    for axis in grid.axes:
        yield axis.title, ", ".join(map(visible, axis.labels))
    if not rows:
        return
    for title, word in fixed_values(grid):
        yield title, visible(word)
    yield "time", _clock_words(rows)
    times = sorted(row.measured_utc for row in rows)
    yield "measured (UTC)", visible(times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}")
    # A cell may have several rows.
    spent = sum({row.cell: row.seconds for row in rows}.values())
    yield "time spent", f"{human_seconds(spent)} on all computers together"


def _computers(grid: SweepGrid) -> Table:
    cells: dict[str, dict[str, float]] = {}
    for row in grid.rows:
        cells.setdefault(row.computer, {})[row.cell] = row.seconds
    columns = (Column("computer", False), Column("cells", form=","), Column("time spent"), Column("mean per cell"))
    totals = {name: sum(spent.values()) for name, spent in sorted(cells.items())}
    body = (
        (visible(name) or "unknown", count := len(cells[name]), human_seconds(total), human_seconds(total / count))
        for name, total in totals.items()
    )
    return Table("Computers", columns, tuple(body))


def _failures(failed: Sequence[FailedCell]) -> Iterator[WarningBox]:
    """Yield a box for each error message, the most frequent first, with the cells in which it occurred.

    The console output of the first few cells is included.
    """
    groups = grouped(failed, lambda each: each.message)
    left = _MOST_CONSOLES
    for message, cells in sorted(groups.items(), key=lambda item: -len(item[1])):
        shown = [each for each in cells if each.console][:left]
        left -= len(shown)
        labels = Lines(tuple(visible(each.label) for each in cells), _MOST_LABELS)
        consoles = (
            Fold(
                f"Console of {visible(each.label)}",
                (Verbatim(visible(each.console[-_CONSOLE_CHARACTERS:], lines=True)),),
            )
            for each in shown
        )
        count = counted(len(cells), "cell")
        yield WarningBox(visible(message), (Fold(count, (labels,), is_open=len(cells) <= _OPEN_LABELS), *consoles))


def _stamps(grid: SweepGrid) -> Iterator[Stamp]:
    """Yield the warnings of the cells, the most frequent first, each with the number of cells that have it."""
    cells: dict[str, set[str]] = {}
    for row in grid.rows:
        for stamp in filter(None, row.stamps.splitlines()):
            cells.setdefault(stamp, set()).add(row.cell)
    measured = counted(grid.result.measured, "cell")
    for stamp, count in Counter({stamp: len(found) for stamp, found in cells.items()}).most_common():
        explanation = explained(visible(stamp))
        sentence = f"{explanation.sentence} ({count:,} of {measured})"
        yield Stamp(explanation.rule, sentence, explanation.why, explanation.remedy)
