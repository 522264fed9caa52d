"""Printable pages contain no answers, and docs/instructor.md names every lesson and drill."""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.support.browser import CHROMIUM
from lab.cli.main import run
from lab.drills.schema import catalogue, read_drill
from lab.errors import ExitCode
from lab.lessons.course import built_in_course
from tests.unit.report.test_page import needs_browser
from tui.key_card import key_card


def made(tmp_path: Path, *words: str) -> str:
    path = tmp_path / "page.html"
    assert run(["handout", *words, "--to", str(path)]) == ExitCode.DONE
    return path.read_text()


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_card_has_every_screen_and_its_keys(tmp_path: Path) -> None:
    page = text_of(made(tmp_path, "keys"))
    sections = key_card()
    assert [section.title for section in sections][:3] == ["Everywhere", "1 Lab", "2 Build"]
    for section in sections:
        for _, name, words in section.rows:
            assert " ".join(f"{name} {words}".split()) in page
    keys = {key for section in sections if section.title == "1 Lab" for row in section.rows for key in row[0].split()}
    assert {"f", "a", "x", "w", "m", "v", "Del"} <= keys


def test_the_sheets_have_every_step_and_no_answers(tmp_path: Path) -> None:
    page = made(tmp_path, "lessons", "--seed", "otter")
    course = built_in_course()
    text = text_of(page)
    assert page.count('<article class="page"') == len(course.ids) == 24
    for name in course.ids:
        lesson = course.find(name).ready("otter")
        assert lesson.title in text
        for step in lesson.steps:
            for hint in step.hints:
                assert text_of(hint) not in text
            assert text_of(step.explain)[:60] not in text
            if step.ask:
                assert all(" ".join(option.split()) in text for option in step.ask.options.values())
    assert made(tmp_path, "lessons", "5", "--language", "sv").count('<article class="page" lang="sv"') == 1


def test_a_wrong_name_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["lessons", "99"], ["keys", "4"], ["keys", "--seed", "x"]):
        assert run(["handout", *words, "--to", str(tmp_path / "no.html")]) == ExitCode.USAGE
        assert "next:" in capsys.readouterr().err
    assert not (tmp_path / "no.html").exists()


@needs_browser
@pytest.mark.parametrize(("what", "pages"), [("keys", 1), ("lessons", 24)])
def test_each_fills_one_page_of_paper(tmp_path: Path, what: str, pages: int) -> None:
    made(tmp_path, what)
    pdf = tmp_path / "page.pdf"
    argv = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    argv += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    argv += ["--no-pdf-header-footer", f"--print-to-pdf={pdf}", (tmp_path / "page.html").as_uri()]
    subprocess.run(argv, capture_output=True, timeout=180, check=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())) == pages


TERM = re.compile(r"## A term\n(.*?)\n## ", re.DOTALL)


def test_every_lesson_and_drill_is_in_a_week() -> None:
    found = TERM.search(Path(__file__).parents[3].joinpath("docs", "instructor.md").read_text())
    assert found
    rows = [line.split("|")[2:4] for line in found[1].splitlines() if re.match(r"\| \d", line)]
    lessons, drills = (" ".join(row[place] for row in rows) for place in (0, 1))
    course = built_in_course()
    for name in course.ids:
        assert f" {int(name[:2])} {course.find(name).lesson.title}" in f" {lessons}", name
    for name, path in catalogue().items():
        assert f" {int(name[:2])} {read_drill(path).title}" in f" {drills}", name
