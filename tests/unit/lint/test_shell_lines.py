"""Shell scripts: fio commands are judged like job files, mdadm's commands in order; what is not analysed is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.lint.fio_checks import lint_job_file
from lab.publications.recipes import lint_shell, parse_mdadm
from lab.publications.shell import Word, read_script
from tests.cases import cases

DATA = Path(__file__).with_name("data")
WRITER = "fio --name=x --filename=/dev/md0 --rw=randwrite --bs=4k --size=1G"
JOB = "[x]\nfilename=/dev/md0\nrw=randwrite\nbs=4k\nsize=1G\n"
BROKEN = {"runtime-short", "buffered-writer"}


def rules(text: str) -> set[str]:
    return {finding.rule_id for finding in lint_shell(text)}


def words_of(text: str) -> list[tuple[str, ...]]:
    return [command.argv for command in read_script(text).commands]


def test_a_command_breaks_what_the_same_job_breaks_in_a_file() -> None:
    assert rules(WRITER) == {each.rule_id for each in lint_job_file(JOB)} == BROKEN
    assert not [*lint_shell("")]


@pytest.mark.parametrize(("text", "broken"), cases(DATA / "scripts.txt"))
def test_a_script_breaks_these_rules_and_no_others(text: str, broken: str) -> None:
    assert rules(text) == set(broken.split())


def test_a_line_that_is_not_analysed_is_named_with_the_reason() -> None:
    (found,) = lint_shell("#!/bin/sh\n\n\n\n\n\nfio --name=x $(cat options)\n")
    assert (found.rule_id, found.subject) == ("not-analysed", "line 7")
    assert "the fio command in line 7 is not analysed: it contains $(…)" in found.observed
    assert found.is_note


def test_two_commands_with_jobs_of_one_name_are_two() -> None:
    found = [each.subject for each in lint_shell(f"{WRITER}\n{WRITER}\n") if each.rule_id == "buffered-writer"]
    assert found == ["line 1: [x]", "line 2: [x]"]


@pytest.mark.parametrize(("line", "parsed"), cases(DATA / "mdadm.txt"))
def test_every_mode_of_mdadm(line: str, parsed: str) -> None:
    call = parse_mdadm([Word(word) for word in line.split()])
    assert call.problem == ""
    mode, _, devices = parsed.partition(" | ")
    assert [call.mode, *filter(None, [call.array])] == mode.split()
    assert [word.text for word in call.devices] == devices.split()


def test_words() -> None:
    assert words_of("a 'b c' \"d $X e\" f\\ g") == [("a", "b c", "d $X e", "f g")]
    assert words_of("X='1 2'; a $X \"$X\" ${X:-3}") == [("a", "1", "2", "1 2", "1", "2")]
    assert words_of("a{b,c{d,e}}f {1..3} {01..03} '{x,y}' {z}") == [
        ("abf", "acdf", "acef", "1", "2", "3", "01", "02", "03", "{x,y}", "{z}")
    ]
    assert words_of("a 2>&1 >x <y b") == [("a", "b")]
    assert words_of("for i in 1 2; do for j in x y; do a $i$j; done; done") == [
        *(("a", "1x"), ("a", "1y"), ("a", "2x"), ("a", "2y"))
    ]


def test_a_loop_without_bound_is_refused() -> None:
    text = "for a in {1..99}; do for b in {1..99}; do x; done; done"
    with pytest.raises(SpecError, match="too many iterations to follow"):
        read_script(text)
    loops = "for a in {1..99}; do " * 6 + "X=1; " + "done; " * 6
    with pytest.raises(SpecError, match="too many iterations to follow"):
        read_script(loops)
    with pytest.raises(SpecError, match="too many words"):
        read_script("a {1..99}{1..99}{1..99}")


@pytest.mark.parametrize("text", ["echo 'a", 'echo "a', "echo $(a", "echo ${a", "echo `a", 'x; echo "$(a \'b)"'])
def test_a_quote_or_bracket_that_does_not_end_is_named(text: str) -> None:
    with pytest.raises(SpecError, match="echo") as caught:
        read_script(f"true\n{text}")
    assert caught.value.hint


def test_a_case_inside_a_case_keeps_its_commands() -> None:
    text = "case $1 in\na|b) case $2 in c) x y ;; *) z ;; esac ;;\n(d) w ;;\nesac\nv\n"
    assert words_of(text) == [("x", "y"), ("z",), ("w",), ("v",)]
