"""``raidlab fleet`` shows the data loss of a fleet of arrays, with all variants in its file side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from lab.cli.arguments import number
from lab.cli.context import CLUSTER_HELP, Context, ProgressBar, calls_on, current, table
from lab.errors import SpecError
from lab.fleet.model import (
    MOST_YEARS,
    FleetModel,
    FleetSpec,
    Hours,
    TrialCount,
    changed,
    fleet_names,
    fleet_spec,
    fleet_tree,
    value_of,
    variants,
)
from lab.fleet.run import run_spec
from lab.gates.decoding import JobCount, Seed
from lab.gates.files import FileKind
from lab.host.pool import processors
from lab.theory.extension import Interval, LossFigures
from lab.units import human_bytes

Figures = Mapping[str, tuple[FleetModel, LossFigures]]

_MOST_DIGITS = 1e15
"""Values of at least this are shown as a power of ten."""

_WHY_NOT_MTTDL = """\
MTTDL is a mean over unlimited time in which nothing ages and only whole drives fail. It assumes no latent defects, no
human errors, no bad batches, and repairs at a constant rate. An array is used only for some years, and the figures
above apply to those years."""


def fleet(
    file: Annotated[
        str | None, Parameter(help="A built-in fleet, or the path of a .toml file. By default all are listed.")
    ] = None,
    *,
    scrub: Annotated[
        float | None, number(Hours, help="Also compute the fleet for this scrub interval, in hours.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            negative="",
            help="Also compute the fleet with this key changed, such as repair.spares=2. May be repeated.",
        ),
    ] = None,
    trials: Annotated[
        int | None, number(TrialCount, help="Number of arrays to simulate. More arrays give narrower intervals.")
    ] = None,
    seed: Annotated[int | None, number(Seed, help="Seed of the random numbers, 0 or more.")] = None,
    workers: Annotated[int | None, number(JobCount, help="Number of processes (default: one per processor).")] = None,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> None:
    """Show how often a fleet of arrays loses data over the years, how much, and why.

    Every figure has a 95 % interval. With the same file, options and seed, the figures are the same for any
    number of workers.
    """
    context = current()
    if file is None:
        if set_ or cluster or any(each is not None for each in (scrub, trials, seed, workers)):
            raise SpecError("these options need a fleet", hint="name a fleet, such as: raidlab fleet school …")
        _list(context)
        return
    given = {"run.trials": trials, "run.seed": seed}
    tree = changed(fleet_tree(file), {key: value for key, value in given.items() if value is not None})
    context.announce_foreign(file, FileKind.FLEET)
    spec = fleet_spec(tree, file)
    chosen = [*variants(tree, spec), *_own_variant(tree, scrub, set_ or ())]
    found: dict[str, tuple[FleetModel, LossFigures]] = {}
    with calls_on(cluster, context) as calls, ProgressBar(quiet=context.quiet) as bar:
        for place, (name, each) in enumerate(chosen):

            def show(fraction: float, place: int = place, name: str = name) -> None:
                bar.show(name, (place + fraction) / len(chosen))

            found[name] = run_spec(each, context.results, calls or workers or processors(), show)
    document = {"fleet": spec, "variants": {name: {"model": m, "figures": f} for name, (m, f) in found.items()}}
    context.out(document, fleet_text(spec, found))


def _own_variant(tree: Mapping[str, Any], scrub: float | None, keys: Sequence[str]) -> list[tuple[str, FleetSpec]]:
    changes: dict[str, Any] = {} if scrub is None else {"scrub.interval_hours": scrub}
    removed = ("scrub.weibull",) if changes else ()
    for each in keys:
        key, equals, text = map(str.strip, each.partition("="))
        if not equals or not key:
            raise SpecError(
                f"'{each}' is not of the form key=value", hint="write a key and its value, such as repair.spares=2"
            )
        if key in changes:
            raise SpecError(f"'{key}' is set twice", hint="set each key only once; --scrub sets scrub.interval_hours")
        changes[key] = value_of(text)
    if not changes:
        return []
    name = ", ".join(
        f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}" for key, value in changes.items()
    )
    return [(name, fleet_spec(tree, name, changes, removed))]


def _list(context: Context) -> None:
    specs = [fleet_spec(fleet_tree(name), name) for name in fleet_names()]
    rows = [(each.id, each.arrays, _array_words(each), f"{each.years:g}", each.title) for each in specs]
    context.out({"fleets": specs}, table(("fleet", "arrays", "each", "years", "what"), rows, right=("arrays", "years")))


def _array_words(spec: FleetSpec) -> str:
    kind = spec.level if spec.parities is None else f"{spec.members - spec.parities}+{spec.parities}"
    return f"{kind}, {spec.members} of {spec.disk_tb:g} TB"


def fleet_text(spec: FleetSpec, found: Figures) -> str:
    """Return the tables of a fleet and its variants."""
    years = f"{spec.years:g} years" if spec.years != 1 else "a year"
    # A variant may have a different number of years, so a common heading cannot state the number.
    span = years if all(model.years == spec.years for model, _ in found.values()) else "its years"
    head = f"{spec.title}: {spec.arrays:,} arrays ({_array_words(spec)}) over {years}"
    head += f"\nparameters: {spec.source}" if spec.source else ""
    chances = [
        (name, _percent(f.fleet_loss_chance), _percent(f.loss_chance_per_array_year), _nines(f))
        for name, (_, f) in found.items()
    ]
    amounts = [
        (name, _within(f.lost_bytes_per_pb_year, _bytes_text), _within(f.nomdl_bytes_per_tb, _bytes_text), *_shares(f))
        for name, (_, f) in found.items()
    ]
    mttdl = [
        (
            name,
            f"over {f.mttdl_years:.0e}" if f.mttdl_years >= MOST_YEARS else _number(f.mttdl_years),
            _to_mttdl(f),
            f"{f.failures_per_array_year:.3g}",
            _sampling(f),
        )
        for name, (_, f) in found.items()
    ]
    variant = "variant"
    parts = [
        head,
        table((variant, f"loss in {span}, any array", "an array, in a year", "nines of a year"), chances),
        table(
            (variant, "lost per PB and year", f"NOMDL: lost per TB in {span}", "failures", "sectors", "people"),
            amounts,
            right=("failures", "sectors", "people"),
        ),
        "\n".join(line for name, (_, f) in found.items() for line in _seldom(name, f)),
        table(
            (variant, "MTTDL, years", "losses ÷ predicted", "drive failures per array and year", "simulated"),
            mttdl,
            right=("MTTDL, years", "losses ÷ predicted", "drive failures per array and year"),
        ),
        "\n".join(_assumptions(found)),
        _WHY_NOT_MTTDL,
    ]
    return "\n\n".join(filter(None, parts))


def _assumptions(found: Figures) -> Iterator[str]:
    """Yield what each variant's figures count, and the formula of its MTTDL. Variants with equal texts share a line."""
    for word, texts in (
        ("counted", {name: figures.counted for name, (_, figures) in found.items()}),
        ("MTTDL by hand", {name: figures.mttdl_by_hand for name, (_, figures) in found.items()}),
    ):
        for text in dict.fromkeys(texts.values()):
            yield f"{word}, {', '.join(name for name, each in texts.items() if each == text)}: {text}"


def _shares(figures: LossFigures) -> list[str]:
    return [f"{100 * each:.3g} %" if figures.has_losses else "–" for each in figures.cause_losses.values()]


def _seldom(name: str, figures: LossFigures) -> list[str]:
    """Return bounds for causes that were rarely or never seen. Without any loss, all figures are bounds already."""
    more = "More --trials narrow this." if figures.is_biased else "More --trials, or run.method=biased, narrow this."
    return [
        f"{name}: {'few losses' if bytes_lost.value else 'no loss'} due to {cause} "
        f"{'were' if bytes_lost.value else 'was'} seen; this cause loses at most {_bytes_text(bytes_lost.high)} per PB "
        f"and year. {more}"
        for cause, bytes_lost in figures.seldom.items()
        if figures.has_losses
    ]


def _within(interval: Interval, text: Callable[[float], str], unit: str = "") -> str:
    value, low, high = map(text, (interval.value, interval.low, interval.high))
    return f"{value}{unit} [{low}–{high}]" if interval.value else f"less than {high}{unit}"


def _percent(interval: Interval) -> str:
    return _within(interval, lambda chance: f"{100 * chance:.3g}", " %")


def _nines(figures: LossFigures) -> str:
    nines = figures.nines_per_array_year
    return (
        f"{nines.value:.2f} [{nines.low:.2f}–{nines.high:.2f}]" if figures.has_losses else f"more than {nines.low:.2f}"
    )


def _bytes_text(count: float) -> str:
    """Format an expected number of bytes, which is not an integer and may be less than one."""
    return human_bytes(count) if count >= 999.5 else f"{count:.3g} B"


def _number(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < _MOST_DIGITS else f"{value:.3g}"


def _to_mttdl(figures: LossFigures) -> str:
    if not figures.has_losses:
        return f"fewer than {_number(figures.losses_per_array_year.high * figures.mttdl_years)}"
    more = "over " if figures.mttdl_years >= MOST_YEARS else ""
    return f"{more}{_number(figures.losses_to_mttdl)}"


def _sampling(figures: LossFigures) -> str:
    weights = f", rare events weighted (mean weight {figures.weight_mean:.3f} ± {figures.weight_error:.3f})"
    return f"{figures.trials:,} arrays{weights if figures.is_biased else ''}"
