"""The app in a browser, through textual-serve, on loopback only, protected by a random token in the address.

Each browser tab runs its own app, the way each terminal does. The token is the first part of the path of everything
that the page loads, including its websocket. Any other request is answered with status 403 and starts nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import shlex
import threading
import warnings
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, ToolMissing
from lab.host import signals
from lab.host.processes import isolated_python

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Middleware

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8642
_TOKEN_BYTES = 24
_LINK = re.compile(r"""<link\b[^>]*\bhref=["']([^"']*)["'][^>]*>""")
_TAKES_KEYS = """
new MutationObserver((_, observer) => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys && document.body.classList.contains("-first-byte")) { keys.focus(); observer.disconnect(); }
}).observe(document.body, { attributes: true, childList: true, subtree: true });
"""
Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


def app_command(target: str | None) -> str:
    """Return the shell command that textual-serve runs for each tab."""
    return shlex.join(isolated_python("-m", "tui", *([target] if target else [])))


def serve(target: str | None, *, port: int = DEFAULT_PORT, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. ``on_ready`` gets the address with the token. Port 0 selects a free port.

    Raises ToolMissing if the extra ``web`` is not installed, and LabError if the port is taken or if this is not the
    main thread, which alone receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise LabError("'raidlab serve' does not run within the text mode", hint="run it in another terminal")
    # A bad request is not an error of the server, but these loggers would print its exception and traceback on standard
    # error.
    for name in ("aiohttp", "asyncio", "textual-serve"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with signals.restored():
        asyncio.run(_until_signal(app_command(target), port, on_ready))


async def _until_signal(command: str, port: int, on_ready: Callable[[str], None]) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals.ENDING:
        loop.add_signal_handler(number, over.set)
    runner, address = await start(command, port=port)
    try:
        on_ready(address)
        await over.wait()
    finally:
        await runner.cleanup()


async def start(command: str, *, port: int) -> tuple[web.AppRunner, str]:
    """Start serving ``command``. Return (runner, address with the token). ``runner.cleanup`` stops the server.

    Raises ToolMissing if the extra ``web`` is not installed, and LabError if the port cannot be used.
    """
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError as error:
        hint = "install it with: pip install 'raidlab[web]'"
        raise ToolMissing("the app in a browser needs the Python package textual-serve", hint=hint) from error

    class Quiet(Server):
        """The server without its banner, whose address lacks the token, and without a font from another host."""

        async def on_startup(self, app: web.Application) -> None:
            return

        async def handle_index(self, request: web.Request) -> Any:
            page: Any = await super().handle_index(request)
            page.text = own_page(page.text, self.public_url)
            return page

    token = secrets.token_urlsafe(_TOKEN_BYTES)
    site = web.Application(middlewares=[_guard(token)])
    runner = web.AppRunner(site, access_log=None, shutdown_timeout=2.0)
    server = Quiet(command, host=LOOPBACK, port=port, title="raidlab")
    with warnings.catch_warnings():
        # aiohttp_jinja2, which textual-serve uses, still stores its templates under a plain string.
        warnings.simplefilter("ignore")
        site.add_subapp(f"/{token}", await server._make_app())
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        await runner.cleanup()
        raise LabError(
            f"port {port} cannot be used: {error.strerror}",
            hint="choose a different port with --port, or use --port 0 for any free port",
        ) from error
    port = runner.addresses[0][1]
    server.public_url = f"http://{LOOPBACK}:{port}"
    return runner, f"{server.public_url}/{token}/"


def own_page(page: str, address: str) -> str:
    """Return textual-serve's page without links to other hosts, and with a script that gives the terminal the focus.

    The page links to a style sheet on the internet. xterm.js receives keys through its own text field,
    which otherwise has the focus only after a click.
    """
    page = _LINK.sub(lambda link: link[0] if link[1].startswith((address, "/")) else "", page)
    return page.replace("</body>", f"<script>{_TAKES_KEYS}</script></body>")


def _guard(token: str) -> Middleware:
    """Return middleware that refuses requests without the token, and forbids the page to contact other hosts."""
    from aiohttp import web

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        first = request.path.split("/", 2)[1] if request.path.startswith("/") else ""
        if not hmac.compare_digest(first.encode(), token.encode()):
            return web.Response(status=403, text="This address lacks the token that raidlab serve printed.\n")
        response = await handler(request)
        if not response.prepared:
            # If a later version of textual-serve requests something from another host, the browser must refuse it, and
            # must not send the token as referrer.
            response.headers["Content-Security-Policy"] = (
                "default-src 'self' 'unsafe-inline' data:; "
                f"connect-src 'self' ws://{request.host}; frame-ancestors 'none'"
            )
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-store"
        return response

    return guard
