"""``raidlab lint``: the methodology guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab.cli.context import Context, current
from lab.cli.output import out, out_json, table
from lab.errors import ExitCode, LabError, SpecError
from lab.experiments.linting import lint_experiment
from lab.experiments.schema import built_in_names, find_experiment
from lab.gates.decoding import parse_toml
from lab.gates.files import MOST_RECORD_BYTES, read_text
from lab.lint.extension import FileLint, PublicationLint
from lab.lint.fio_checks import lint_fio, lint_job_file
from lab.lint.result_checks import lint_result
from lab.lint.rules import Effect, LintFinding, LintRule, all_rules, distinct, find_rule
from lab.plugins import extension, extensions
from lab.results.elsewhere import is_file_name, read_files
from lab.results.store import ResultStore, decode_record
from lab.tomlfile import toml_text
from lab.units import KIB
from lab.workloads.workload import LoadProgram, find_workload

FIO_SUFFIXES = (".fio", ".job")
_MOST_RECIPE_BYTES = 64 * KIB
_AS_PUBLISHED = "-as-published"


def lint(
    name: Annotated[
        str | None,
        Parameter(
            help="An experiment, a result, or a file: .toml experiment or workload, .fio job, .sh recipe, "
            "record.json, .zip bundle; nothing: list the rules."
        ),
    ] = None,
    *,
    explain: Annotated[str | None, Parameter(help="Explain one rule: why it is there, what to do, its source.")] = None,
) -> int:
    """Name what makes a measurement untrustworthy, and what is not judged. Ends with 1 if a rule is broken."""
    context = current()
    if explain is not None:
        _show_rule(find_rule(explain), context)
        return ExitCode.DONE
    if name is None:
        _list_rules(context)
        return ExitCode.DONE
    found = distinct(findings_of(name, ResultStore(context.host.state.results)))
    if context.json:
        out_json([{**_plain(each), "effect": each.rule.effect.value, "remedy": each.rule.remedy} for each in found])
    elif found:
        out(_text(found))
    else:
        context.narrator.notice(f"{name}: no rule is broken")
    return ExitCode.FAILED if any(not each.is_note for each in found) else ExitCode.DONE


def findings_of(name: str, store: ResultStore) -> Iterable[LintFinding]:
    """The findings for ``name``, of any kind. Raises LabError if its kind is unknown, or it is unreadable."""
    path = Path(name)
    lint_text = _lint_of(path.suffix)
    if lint_text:
        text = read_text(path, _MOST_RECIPE_BYTES)
        try:
            return tuple(lint_text(text))
        except SpecError as error:
            raise SpecError(f"'{path}': {error.message}", hint=error.hint) from None
    if path.suffix == ".json":
        return lint_result(decode_record(read_text(path, MOST_RECORD_BYTES).encode(), source=name))
    if path.suffix and is_file_name(path.name):
        files = read_files(path)
        return [finding for result_id in files.ids for finding in lint_result(files.record(result_id))]
    if path.suffix == ".toml" and _is_workload(path):
        workload = find_workload(name)
        return lint_fio(workload.recipe) if workload.program is LoadProgram.FIO else ()
    if path.suffix == ".toml" or name in built_in_names():
        return lint_experiment(find_experiment(name)[0])
    publications = extension(PublicationLint)
    studies = publications.names() if publications else ()
    study = name.removesuffix(_AS_PUBLISHED)
    if publications and study != name and study in studies:
        return publications.lint(study)
    try:
        return lint_result(store.load(name))
    except LabError as error:
        known = ", ".join((*built_in_names(), *(f"{each}{_AS_PUBLISHED}" for each in studies)))
        error.hint = f"{error.hint}; experiments: {known}"
        raise


def _lint_of(suffix: str) -> Callable[[str], Iterable[LintFinding]] | None:
    """The lint of files with this suffix, from their text."""
    added = {each.suffix: each.lint for each in extensions(FileLint)}
    return lint_job_file if suffix in FIO_SUFFIXES else added.get(suffix)


def _is_workload(path: Path) -> bool:
    """Whether the file is a workload, not an experiment: it has a key that all workloads have, and no experiment."""
    return "direction" in parse_toml(toml_text(path), source=str(path))


def _plain(finding: LintFinding) -> dict[str, str]:
    return {
        "rule": finding.rule_id,
        "subject": finding.subject,
        "observed": finding.observed,
        "required": finding.required,
    }


def _text(found: tuple[LintFinding, ...]) -> str:
    rows = [(each.rule_id, each.rule.effect.value, each.subject, each.observed, each.required) for each in found]
    lines = [table(("rule", "effect", "where", "found", "needed"), rows), ""]
    lines += [f"{name}: {find_rule(name).remedy}" for name in dict.fromkeys(each.rule_id for each in found)]
    return "\n".join(lines)


def _list_rules(context: Context) -> None:
    rules = all_rules().values()
    if context.json:
        out_json(tuple(rules))
    else:
        out(table(("rule", "effect", "what is wrong"), [(rule.id, rule.effect.value, rule.says) for rule in rules]))


def _show_rule(rule: LintRule, context: Context) -> None:
    if context.json:
        out_json(rule)
        return
    effect = {
        Effect.REFUSE: "the run is refused",
        Effect.STAMP: "the result is stamped with it",
        Effect.NOTE: "nothing is wrong: it is not judged",
    }[rule.effect]
    out(f"{rule.id}: {rule.says} ({effect})\n\nwhy:    {rule.why}\nremedy: {rule.remedy}\nsource: {rule.source}")
