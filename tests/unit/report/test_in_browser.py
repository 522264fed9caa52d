"""The report in a real browser, where there is one: it draws every plot, and complains about nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.compare.platform_records import machine
from tests.unit.report.records import load
from tests.unit.report.test_page import figures_in, page_of
from tests.unit.results.records import cell, record

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("RAIDLAB_BROWSER"), reason="no Chromium here (apt install chromium)"
)


def opened(page: Path, profile: Path) -> tuple[str, list[str]]:
    """The page's elements once its scripts have run, and what they wrote to the console."""
    assert CHROMIUM, "RAIDLAB_BROWSER is set, and there is no Chromium: provision/host/packages.sh browser"
    argv = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    # No address but the file's own: whatever it asked for would fail, and be told on the console.
    argv += ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--window-size=1300,1000"]
    # Nor does the browser ask its maker for anything.
    argv += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    done = subprocess.run(
        [*argv, "--virtual-time-budget=5000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    # The browser's own pages (chrome://) write there too.
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "source: chrome://" not in line]
    return done.stdout, said


@needs_browser
def test_every_plot_is_drawn_and_the_console_is_silent(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    few = {"single": 100.0, "raid5": 290.0}
    page.write_text(page_of(load("antioquia-quick"), machine("a", few, few), machine("b", few, few, seed=1)))
    elements, complaints = opened(page, tmp_path / "profile")
    assert complaints == []
    assert len(re.findall(r'class="canvas js-plotly-plot"', elements)) == len(figures_in(page.read_text())) > 10


@needs_browser
def test_a_page_that_asks_for_something_is_heard(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    whole = page_of(record(cells=(cell("raid5", "x", 0, read_iops=1.0),)))
    page.write_text(whole.replace("</main>", '<img src="https://x.example/a.png"></main>'))
    assert opened(page, tmp_path / "profile")[1]
