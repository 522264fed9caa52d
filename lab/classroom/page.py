"""The results of a class as one page with plots. It contains no names of files or students, so the class may see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.classroom.view import ClassPractice, ClassRow, ClassView, DrillStanding, Share, practice_tables
from lab.report.collected import RatioDistribution, distribution_table
from lab.report.page.blocks import (
    Block,
    Page,
    PageGroup,
    PageSection,
    Plot,
    Trace,
    categories,
    colour,
    median_bars,
    number,
    strokes,
    wrapped,
)
from lab.report.page.build import all_figures
from lab.report.page.plots import distribution_plots
from lab.results.statistics import WANTED_COVERAGE, Estimate

_BAR_PIXELS, _FRAME_PIXELS = 46, 110
_LINE_CHARACTERS = 24
FOOTER = (
    "Lines through bars are 95 % confidence intervals: Wilson's for shares, order statistics for medians (from six "
    "students on). A student is a key; work that several students handed in counts once."
)


def class_page(found: ClassView, title: str) -> Page:
    """The page, with a section for drills, lessons and each experiment, if there are any."""
    practice = found.practice
    tables = tuple(practice_tables(practice))
    sections = []
    if practice.drills:
        lead = "How many students recovered the data, how long they took, and what went wrong."
        own = tuple(table for table in tables if table.title != "Lessons")
        blocks: list[Block] = [*_drill_groups(practice), all_figures(own, is_open=True)]
        sections.append(PageSection("drills", "Drills", lead, tuple(blocks)))
    if practice.lessons:
        bars = _share_bars("passed", {each.lesson: each.passed for each in practice.lessons}, 0)
        plot = _percent_plot("Lessons passed", "Of the students who began the lesson.", [bars])
        group = PageGroup("Who passed", plots=(plot,))
        sections.append(PageSection("lessons", "Lessons", blocks=(group, all_figures(tables[-1:], is_open=True))))
    measured = _by_experiment(found.rows)
    for name in dict.fromkeys([*measured, *(each.experiment for each in found.left_out)]):
        left_out = tuple(each.words for each in found.left_out if each.experiment == name)
        sections.append(_measured(name, measured.get(name, []), left_out))
    students = "1 student" if len(found.keys) == 1 else f"{len(found.keys)} students"
    lead = f"{found.files} bundles of {students}"
    if found.problems:
        lead += f"; {len(found.problems)} cannot be used completely"
    return Page(title, f"{lead}.", tuple(sections), footer=FOOTER)


def _drill_groups(practice: ClassPractice) -> Iterator[PageGroup]:
    drills = practice.drills
    saved = [
        _share_bars("first try", {each.drill: each.first.saved for each in drills}, 0),
        _share_bars("best try", {each.drill: each.best.saved for each in drills}, 2),
    ]
    kept = [
        _share_bars("first try", {each.drill: each.first.have_data for each in drills}, 0),
        _share_bars("best try", {each.drill: each.best.have_data for each in drills}, 2),
    ]
    words = "Nothing written before commit, and the array as required."
    yield PageGroup(
        "Who saved the data",
        plots=(
            _percent_plot("Saved", words, saved),
            _percent_plot("Have the data at the end", "Also those who risked them, or did not finish.", kept),
        ),
    )
    yield PageGroup("How long it took", plots=(_minutes_plot(practice),))
    mistakes = tuple(_mistakes_plot(each) for each in drills if each.mistakes)
    if mistakes:
        yield PageGroup("Mistakes", plots=mistakes)


def _name(word: str) -> str:
    return wrapped(word.replace("-", " "), _LINE_CHARACTERS)


def _share_bars(what: str, shares: Mapping[str, Share], place: int) -> Trace:
    """A bar in per cent for each share, with its interval."""
    found = [
        Estimate(100 * each.fraction, 100 * each.low, 100 * each.high, each.of, WANTED_COVERAGE)
        for each in shares.values()
    ]
    bars = median_bars(list(map(_name, shares)), found, [each.text() for each in shares.values()], "")
    hover = f"<b>%{{y}}</b><br>%{{customdata}}<extra>{what}</extra>"
    return bars | {"name": what, "marker": {"color": colour(place)}, "hovertemplate": hover}


def _percent_plot(title: str, summary: str, traces: Sequence[Trace]) -> Plot:
    names = list(dict.fromkeys(name for trace in traces for name in trace["y"]))
    layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": "per cent of the students"}, "range": [0, 100]},
        "yaxis": categories(names),
    }
    return Plot(title, summary, traces, layout, _FRAME_PIXELS + _BAR_PIXELS * len(names), is_wide=len(names) > 8)


def _minutes_plot(practice: ClassPractice) -> Plot:
    names = [_name(each.drill) for each in practice.drills]
    found = [each.best.minutes for each in practice.drills]
    hover = "<b>%{y}</b><br>%{customdata} minutes<extra>median</extra>"
    bars = median_bars(names, found, [each.text(1) for each in found], "")
    points = [(_name(each.drill), minutes) for each in practice.drills for minutes in each.best.all_minutes]
    layout = {
        "xaxis": {"title": {"text": "minutes with the lab open"}, "rangemode": "tozero"},
        "yaxis": categories(names),
    }
    words = ", ".join(f"{each.drill} {each.best.minutes.median:.1f}" for each in practice.drills)
    summary = f"Each student's best try; medians in minutes: {words}."
    traces = [
        bars | {"name": "median", "hovertemplate": hover},
        strokes("each student", points, "%{x:.4~g} minutes<extra>one student</extra>"),
    ]
    return Plot("Minutes", summary, traces, layout, _FRAME_PIXELS + _BAR_PIXELS * len(names), is_wide=True)


def _mistakes_plot(drill: DrillStanding) -> Plot:
    names = list(map(_name, drill.mistakes))
    counts = [drill.first.mistakes, drill.mistakes]
    traces: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": what,
            "y": names,
            "x": [number(100 * found.get(name, 0) / drill.first.saved.of) for name in drill.mistakes],
            "marker": {"color": colour(place)},
            "hovertemplate": "%{y}: %{x:.3~g} %",
        }
        for what, found, place in zip(("first try", "any try"), counts, (0, 3), strict=True)
    ]
    words = ", ".join(f"{name} {count}" for name, count in drill.mistakes.items())
    return _percent_plot(drill.drill, f"Students who made each mistake, of {drill.first.saved.of}: {words}.", traces)


def _by_experiment(rows: Sequence[ClassRow]) -> dict[str, list[RatioDistribution]]:
    found: dict[str, list[RatioDistribution]] = {}
    for row in rows:
        ratios = RatioDistribution(row.array, row.baseline, row.workload, row.direction, row.values)
        found.setdefault(row.experiment, []).append(ratios)
    return found


def _measured(experiment: str, found: Sequence[RatioDistribution], left_out: tuple[str, ...]) -> PageSection:
    if not found:
        return PageSection(f"measured-{experiment}", experiment, problems=left_out)
    group = PageGroup("Ratios over all results", plots=tuple(distribution_plots(found)))
    lead = "Each array divided by the same result's own baseline."
    blocks = (group, all_figures((distribution_table(experiment, found),), is_open=True))
    return PageSection(f"measured-{experiment}", experiment, lead, blocks, problems=left_out)
