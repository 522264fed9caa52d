"""All problems of a course, as sentences with file, step and remedy. Pure except for reading files.

Files with a wrong structure are rejected when they are read; this module checks their content. ``lab.lessons.proof``
proves on a real lab that a lesson is correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.checks.readings import RatioWithin, RebuildIntact, ResultCheck, ResultFigure, ResultRatio, Source
from lab.checks.state import Check
from lab.errors import LabError, SpecError
from lab.lessons.course import (
    FORMAT_VERSION,
    FORMAT_VERSIONS,
    HINTS,
    Course,
    Lesson,
    LessonFiles,
    LessonStep,
    ReadyLesson,
    StepText,
    Translation,
    built_in_course,
    is_lesson_name,
    make_ready,
    placeholders,
    read_lesson,
    word_languages,
    words_in,
)
from lab.lessons.engine import secret_key
from lab.tomlfile import nearest

MOST_WITHIN_PERCENT = 10.0
"""With a wider tolerance, a guess could be accepted."""
TRIED_SEEDS = ("", *(f"try-{number}" for number in range(12)))
"""A lesson must be valid for every seed; these are tried."""


def course_problems(course: Course) -> tuple[str, ...]:
    """All problems of all lessons, and of their order."""
    problems = [problem for files in course.lessons for problem in lesson_problems(files)]
    return (*problems, *_order_problems(course))


def lesson_problems(files: LessonFiles) -> tuple[str, ...]:
    """All problems of one lesson and its translations."""
    problems = [*_head_problems(files), *_step_problems(files.lesson)]
    try:
        for seed in TRIED_SEEDS:
            _require_sound(make_ready(files.lesson, seed))
    except LabError as error:
        problems.append(f"{error.message}: {error.hint}" if error.hint else error.message)
    name = files.path.name
    found = [f"{name}: {problem}" for problem in dict.fromkeys(problems)]
    for language, translation in files.translations.items():
        other = f"{files.path.stem}.{language}.toml"
        found += [f"{other}: {problem}" for problem in _translation_problems(files.lesson, translation, language)]
    return tuple(found)


def check_file(path: Path) -> LessonFiles:
    """Read and check one lesson. Raises SpecError that lists every problem."""
    files = read_lesson(path)
    problems = lesson_problems(files)
    known = (*built_in_course().ids, files.lesson.id)
    strangers = [need for need in files.lesson.needs if need not in known]
    problems = (*problems, *(f"{path.name}: {_unknown_need(need, known)}" for need in strangers))
    if problems:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        raise SpecError(f"lesson '{path}' is not sound:{listed}", hint="fix these, then verify it again")
    return files


def _head_problems(files: LessonFiles) -> Iterator[str]:
    lesson, stem = files.lesson, files.path.stem
    if lesson.format_version not in FORMAT_VERSIONS:
        yield f"format_version is {lesson.format_version}; this raidlab reads {FORMAT_VERSION}: write that"
    if lesson.id != stem:
        yield f"id is '{lesson.id}': write id = \"{stem}\", as the file is called"
    if not is_lesson_name(stem):
        yield f"the name '{stem}' is not two digits, a hyphen and lowercase letters (05-mirroring): rename the file"
    if not 1 <= lesson.minutes <= 60:
        yield f"minutes is {lesson.minutes}: make it 1 to 60, or two lessons"
    if not 1 <= lesson.disks <= 16:
        yield f"disks is {lesson.disks}: write 1 to 16"
    for name in lesson.measure:
        if not re.fullmatch(r"[a-z0-9-]+", name):
            yield f"measurement '{name}': use lowercase letters, digits and hyphens, since results are named after it"
    if not lesson.steps:
        yield "it has no steps: write at least one [[steps]]"
    if not lesson.wrong:
        yield "it has no recorded wrong solution: write a [[wrong]] that a mistake of some step recognises"


def _step_problems(lesson: Lesson) -> Iterator[str]:
    ids = [step.id for step in lesson.steps]
    for name in {each for each in ids if ids.count(each) > 1}:
        yield f"two steps are called '{name}': give each its own id"
    for step in lesson.steps:
        where = f"step {step.id}"
        yield from (f"{where}: {problem}" for problem in _one_step(step))
    for wrong in lesson.wrong:
        step_found = lesson.step(wrong.step)
        if step_found is None:
            yield f"wrong solution: there is no step '{wrong.step}': {_choose(wrong.step, ids)}"
        elif wrong.mistake not in (known := [mistake.id for mistake in step_found.mistakes]):
            problem = f"there is no mistake '{wrong.mistake}': {_choose(wrong.mistake, known)}"
            yield f"wrong solution of step {wrong.step}: {problem}"


def _one_step(step: LessonStep) -> Iterator[str]:
    for what in ("say", "explain"):
        if not getattr(step, what).strip():
            yield f"'{what}' is empty: write it"
    yield from _secret_problems(step)
    if len(step.hints) != HINTS:
        yield f"it has {len(step.hints)} hints: write {HINTS}, from a nudge to the whole answer"
    if not all(hint.strip() for hint in step.hints):
        yield "a hint is empty: write it"
    if len(set(step.hints)) < len(step.hints):
        yield "two hints are the same: let each say more than the one before"
    if not step.check and step.read is None:
        yield "nothing is checked, so a guess passes it: write a check or a [steps.read]"
    if step.read and not step.read.question.strip():
        yield "its reading asks nothing: write the question"
    if step.read and not 0 <= step.read.within_percent <= MOST_WITHIN_PERCENT:
        wide = step.read.within_percent
        yield f"within_percent is {wide:g}: write 0 to {MOST_WITHIN_PERCENT:g}, or a guess passes it"
    if step.check and not step.do:
        yield "it checks the lab and has no solution of its own: write do = […]"
    if step.ask and len(step.ask.options) < 2:
        yield "its question has fewer than two options: write another"
    if step.ask and step.ask.answer and "{" not in step.ask.answer and step.ask.answer not in step.ask.options:
        yield f"the answer '{step.ask.answer}' is no option: {_choose(step.ask.answer, step.ask.options)}"
    ids = [mistake.id for mistake in step.mistakes]
    for name in {each for each in ids if ids.count(each) > 1}:
        yield f"two mistakes are called '{name}': give each its own id"
    for mistake in step.mistakes:
        if not (mistake.when or mistake.types) or not mistake.hint.strip():
            yield f"mistake {mistake.id} needs 'when' or 'types', and 'hint': write them"
        if mistake.types and step.read is None:
            yield f"mistake {mistake.id} is about a number, and the step asks for none: write a [steps.read]"


def _secret_problems(step: LessonStep) -> Iterator[str]:
    names = [str(check.get("that", "")) for check in step.check]
    for name in step.secret:
        if name not in names:
            yield f"secret names '{name}', which is not one of its checks: {_choose(name, names)}"
            continue
        try:
            for language in word_languages():
                secret_key(words_in(language), name)
        except SpecError as error:
            yield f"{error.message}: {error.hint}"


def _require_sound(ready: ReadyLesson) -> None:
    """Raises SpecError for problems that appear only with the values of the seed."""
    for step in ready.steps:
        where = f"step {step.id}"
        if step.ask and step.ask.answer and step.ask.answer not in step.ask.options:
            raise SpecError(f"{where}: the answer '{step.ask.answer}' is no option", hint=_choose("", step.ask.options))
        for check in (*step.checks, *(check for mistake in step.mistakes for check in mistake.when)):
            _require_measured(ready, check, where)
        if step.read is not None:
            _require_measured(ready, step.read.source, where)
        for typed in (mistake.typed for mistake in step.mistakes if mistake.typed):
            _require_measured(ready, typed.source, where)


def _require_measured(ready: ReadyLesson, check: Check | Source, where: str) -> None:
    if not isinstance(check, ResultCheck | ResultFigure | ResultRatio):
        return
    if check.measure not in ready.measures:
        raise SpecError(
            f"{where}: there is no measurement '{check.measure}'", hint=_choose(check.measure, ready.measures)
        )
    experiment = ready.measures[check.measure][0]
    arrays = [array.id for array in experiment.arrays]
    named = [check.of, check.to] if isinstance(check, RatioWithin | ResultRatio) else []
    named += [check.of] if isinstance(check, ResultFigure) else []
    asked = [choice.array for choice in named] + ([check.array] if isinstance(check, RebuildIntact) else [])
    for name in asked:
        if name not in arrays:
            raise SpecError(f"{where}: measurement {check.measure} has no array '{name}'", hint=_choose(name, arrays))
    load = experiment.rebuild.under if experiment.rebuild else None
    jobs = [job.id or job.workload for job in (*experiment.jobs, *([load] if load else []))]
    for choice in named:
        if choice.workload and choice.workload not in jobs:
            raise SpecError(
                f"{where}: measurement {check.measure} has no workload '{choice.workload}'",
                hint=_choose(choice.workload, jobs),
            )


def _order_problems(course: Course) -> Iterator[str]:
    """Required lessons must exist and come earlier, which also excludes cycles."""
    ids = course.ids
    numbers = [each[:2] for each in ids]
    for number in sorted({each for each in numbers if numbers.count(each) > 1}):
        yield f"two lessons have the number {number}: give each its own place"
    for position, files in enumerate(course.lessons):
        for need in files.lesson.needs:
            if need not in ids:
                yield f"{files.path.name}: {_unknown_need(need, ids)}"
            elif ids.index(need) >= position:
                yield f"{files.path.name}: needs '{need}', which does not come before it: change needs or the numbers"


def _unknown_need(need: str, ids: Iterable[str]) -> str:
    return f"needs '{need}', which is no lesson: {_choose(need, ids)}"


def _translation_problems(lesson: Lesson, translation: Translation, language: str) -> Iterator[str]:
    """Missing or unexpected texts of a translation, compared with the lesson."""
    if translation.format_version not in FORMAT_VERSIONS:
        yield f"format_version is {translation.format_version}; this raidlab reads {FORMAT_VERSION}: write that"
    if translation.id != lesson.id:
        yield f"id is '{translation.id}': write id = \"{lesson.id}\", as in the lesson"
    if translation.language != language:
        yield f"language is '{translation.language}': write language = \"{language}\", as in the file's name"
    yield from _same_keys("steps", translation.steps, [step.id for step in lesson.steps])
    yield from _same_places("title", lesson.title, translation.title)
    yield from _same_places("goal", lesson.goal, translation.goal)
    for step in lesson.steps:
        if step.id in translation.steps:
            yield from _step_text_problems(step, translation.steps[step.id])


def _step_text_problems(step: LessonStep, text: StepText) -> Iterator[str]:
    where = f"steps.{step.id}"
    yield from _same_places(f"{where}.say", step.say, text.say)
    yield from _same_places(f"{where}.explain", step.explain, text.explain)
    if len(text.hints) != len(step.hints):
        yield f"{where}.hints has {len(text.hints)} texts and the lesson {len(step.hints)}: write as many"
    for number, (hint, other) in enumerate(zip(step.hints, text.hints, strict=False), 1):
        yield from _same_places(f"{where}.hints, number {number}", hint, other)
    if (step.ask is None) != (text.ask is None):
        yield f"{where}.ask is {'missing' if step.ask else 'not in the lesson'}: write what the lesson has"
    if (step.read is None) == bool(text.read.strip()):
        yield f"{where}.read is {'missing' if step.read else 'not in the lesson'}: write what the lesson has"
    if step.read and text.read.strip():
        yield from _same_places(f"{where}.read", step.read.question, text.read)
    if step.ask and text.ask:
        yield from _same_keys(f"{where}.ask.options", text.ask.options, step.ask.options)
        yield from _same_places(f"{where}.ask.question", step.ask.question, text.ask.question)
    yield from _same_keys(f"{where}.mistakes", text.mistakes, [mistake.id for mistake in step.mistakes])
    for mistake in step.mistakes:
        if mistake.id in text.mistakes:
            yield from _same_places(f"{where}.mistakes.{mistake.id}", mistake.hint, text.mistakes[mistake.id])


def _same_keys(where: str, found: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    found, wanted = list(found), list(wanted)
    for key in wanted:
        if key not in found:
            yield f"{where}.{key} is missing: translate it"
    for key in found:
        if key not in wanted:
            yield f"{where}.{key} is not in the lesson: {_choose(key, wanted)}"


def _same_places(where: str, original: str, translated: str) -> Iterator[str]:
    if not translated.strip():
        yield f"{where} is empty: translate it"
    missing = sorted(placeholders(original) - placeholders(translated))
    strange = sorted(placeholders(translated) - placeholders(original))
    if missing or strange:
        words = [f"lacks {', '.join(missing)}"] if missing else []
        words += [f"has {', '.join(strange)}, which the lesson has not"] if strange else []
        yield f"{where} {' and '.join(words)}: use the same placeholders in braces"


def _choose(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = nearest(word, names)
    return f"did you mean '{near}'?" if near else f"known here: {', '.join(names) or 'none'}"
