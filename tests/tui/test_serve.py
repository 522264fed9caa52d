"""``raidlab serve``: a real server on loopback with a real app, and who has access to it."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import sys
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from lab.errors import LabError, ToolMissing
from tests.waiting import PATIENCE_SECONDS
from tui import serve

_APP = """
from textual.app import App
class Small(App):
    BINDINGS = [("x", "leave", "Leave")]
    def on_mount(self):
        open({started!r}, "a").write("started ")
    def action_leave(self):
        open({started!r}, "a").write("pressed ")
Small().run()
"""


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    started = tmp_path / "started"
    script = tmp_path / "small.py"
    script.write_text(_APP.format(started=str(started)))
    runner, address = await serve.start(f"{sys.executable} {script}", port=0)
    try:
        yield address, started
    finally:
        await runner.cleanup()
        # textual-serve drops an app's transport without closing it. The warning would appear in a later test.
        for left in gc.get_objects():
            if issubclass(type(left), BaseSubprocessTransport):
                left.close()


async def test_without_the_token_everything_is_refused_and_nothing_starts(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, started), aiohttp.ClientSession() as client:
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1"
        root = f"http://{parts.netloc}"
        token = parts.path.strip("/")
        for path in ("/", "/ws", "/static/js/textual.js", f"/{token[:-1]}/", f"/x{token}/ws", f"//{token}/"):
            async with client.get(root + path) as answer:
                assert answer.status == 403, path
        for path in ("/ws", f"/{token[:-1]}/ws"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(f"{root}{path}?width=80&height=24")
            assert refused.value.status == 403
        assert not started.exists()


async def test_with_the_token_the_page_is_connected_to_an_app_and_loads_nothing_foreign(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, started), aiohttp.ClientSession() as client:
        async with client.get(address) as answer:
            assert answer.status == 200
            page = await answer.text()
            assert address.replace("http:", "ws:") + "ws" in page
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
            assert answer.headers["Referrer-Policy"] == "no-referrer"
        async with client.get(f"{address}static/js/textual.js") as answer:
            assert answer.status == 200
        styles = re.findall(r'<link[^>]*href="([^"]+)"', page)
        assert len(styles) == 1
        async with client.get(styles[0]) as answer:
            assert answer.status == 200
            style = re.sub(r"/\*.*?\*/", "", await answer.text(), flags=re.DOTALL)
        for text in (page.replace("http://www.w3.org/2000/svg", ""), style):
            assert set(re.findall(r"(?:https?:|wss?:)?//([\w.:-]+)", text)) <= {urlsplit(address).netloc}
        async with client.ws_connect(f"{address}ws?width=80&height=24") as socket_:
            await until_written(started, "started")
            await socket_.send_json(["stdin", "x"])
            await until_written(started, "pressed")


async def until_written(file: Path, word: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not file.exists() or word not in file.read_text():
            await asyncio.sleep(0.02)


async def test_a_port_in_use_is_reported_with_a_hint() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LabError, match="cannot be used") as refused:
            await serve.start("true", port=taken.getsockname()[1])
        assert "--port" in refused.value.hint


async def test_two_starts_have_two_tokens() -> None:
    addresses = []
    for _ in range(2):
        runner, address = await serve.start("true", port=0)
        await runner.cleanup()
        addresses.append(urlsplit(address).path)
    assert addresses[0] != addresses[1]
    assert all(len(path) > 30 for path in addresses)


async def test_without_the_extra_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    with pytest.raises(ToolMissing) as missing:
        await serve.start("true", port=0)
    assert "raidlab[web]" in missing.value.hint


def test_each_tab_runs_the_app_on_the_chosen_machine() -> None:
    assert serve.app_command("ssh:box").endswith(" -I -m tui ssh:box")
    assert serve.app_command(None).endswith(" -I -m tui")


def test_the_unaltered_page_of_textual_serve_does_name_one() -> None:
    """Otherwise own_page would no longer have to remove anything from the page."""
    page = (Path(find_spec("textual_serve").origin).parent / "templates/app_index.html").read_text()  # type: ignore[union-attr, arg-type]
    assert "fonts.googleapis.com" in page
    assert "fonts.googleapis.com" not in serve.own_page(page, "http://127.0.0.1:1")
    assert "keys.focus()" in serve.own_page("<body></body>", "http://127.0.0.1:1")
