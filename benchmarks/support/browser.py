"""A Chromium without a window that opens one page and is driven through its debugging pipe, without network or port.

Messages are JSON, each followed by a zero byte, on descriptors 3 and 4 (Chrome's ``--remote-debugging-pipe``). They
follow the Chrome DevTools Protocol.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"),
    # The browser can reach no address except the file's, and it requests nothing from its maker.
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
_WAIT_SECONDS = 120.0


class Browser:
    def __init__(self, to: int, of: int) -> None:
        self._to = to
        self._of = of
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        """What the page's scripts threw or wrote to the console, and what the page's policy refused."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, found
                answer: dict[str, Any] = found["result"]
                return answer

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._of, 1 << 20)
            assert more, "the browser ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if message.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(message["params"])[:2000])
        return message

    def open(self, page: Path) -> None:
        self.ask("Page.navigate", url=page.as_uri())

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. If this is a promise, wait until it is fulfilled."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str) -> float:
        begin = time.monotonic()
        while not self.evaluate(expression):
            assert time.monotonic() - begin < _WAIT_SECONDS, expression
            time.sleep(0.01)
        return time.monotonic() - begin

    def resize(self, width: int, height: int, *, is_dark: bool = False) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser with a temporary profile, and remove both afterwards."""
    assert CHROMIUM, "Chromium is not installed; run: provision/host/packages.sh browser"
    to_read, to = os.pipe()
    of, of_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="raidlab-browser-", ignore_cleanup_errors=True) as profile:
        # The shell gives the pipes the descriptor numbers that the browser expects.
        script = f'exec "$@" 3<&{to_read} 4>&{of_write}'
        argv = ["bash", "-c", script, "browser", CHROMIUM, *FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(argv, pass_fds=(to_read, of_write), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(of_write)
        try:
            yield Browser(to, of)
        finally:
            os.close(to)
            os.close(of)
            try:
                # Without its pipes, the browser ends by itself.
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
