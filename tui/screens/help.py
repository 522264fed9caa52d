"""The help for a screen (F1): its purpose and its current keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from tui.screens.modal import Modal
from tui.widgets.lines import wrapped

if TYPE_CHECKING:
    from tui.base_app import BaseApp


class HelpScreen(Modal[None]):
    """The help, shown over the screen that it explains.

    Args:
        about: the screen that it explains.
    """

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,question_mark", "close", "Close", id="help.close", tooltip="Back to the screen"),
    ]

    def __init__(self, about: Screen[Any]) -> None:
        super().__init__()
        self._about = about

    def compose(self) -> ComposeResult:
        title = getattr(self._about, "AREA", "") or "Dialog"
        with VerticalScroll(id="help-box") as box:
            box.border_title = f"Help: {title}"
            text = getattr(self._about, "HELP", "")
            if text:
                yield Static(
                    Content.from_markup(" ".join(text.split("\n")) if "\n\n" not in text else text), id="help-text"
                )
            yield Static("", id="help-keys")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#help-box").focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        width = self.query_one("#help-box").scrollable_content_region.width - 1
        if width > 0:
            self.query_one("#help-keys", Static).update(key_table(self.app, self._about, width))

    def action_close(self) -> None:
        self.dismiss()


def key_table(app: BaseApp, screen: Screen[Any], width: int) -> Content:
    """The keys, their descriptions and ids for keymap files: the screen's own first, disabled ones dimmed."""
    seen: dict[str, tuple[str, str, str, bool]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.tooltip or not binding.id:
            continue
        key = app.get_key_display(binding)
        if binding.id in seen:
            key = f"{seen[binding.id][0]} {key}"
        seen[binding.id] = (key, binding.description, binding.tooltip, active.enabled)
    rows = sorted(seen.items(), key=lambda item: item[0].startswith("app."))
    keys = max((len(row[0]) for _, row in rows), default=0)
    names = max((len(row[1]) for _, row in rows), default=0)
    lines = [Content("")]
    for binding_id, row in rows:
        lines += _key_lines(binding_id, row, keys, names, width)
    lines.append(Content.from_markup("\n[$secondary] On the right: ids for keymap.toml, see docs/student.md.[/]"))
    return Content("\n").join(lines)


def _key_lines(binding_id: str, row: tuple[str, str, str, bool], keys: int, names: int, width: int) -> list[Content]:
    """The lines of one key; the id is right-aligned, on a line of its own if there is no room."""
    key, name, tooltip, is_enabled = row
    start = keys + names + 4
    style = "" if is_enabled else "$foreground-muted"
    key_style = "bold $footer-key-foreground" if is_enabled else style
    texts = wrapped(tooltip, max(10, width - start))
    if cell_len(texts[-1]) + cell_len(binding_id) + 2 > width - start:
        texts.append("")
    lines = []
    for number, text in enumerate(texts):
        is_first, is_last = number == 0, number == len(texts) - 1
        gap = max(1, width - start - cell_len(text) - cell_len(binding_id)) if is_last else 0
        lines.append(
            Content.assemble(
                (f" {key:>{keys}}  " if is_first else " " * (keys + 3), key_style),
                (f"{name:<{names}} " if is_first else " " * (names + 1), f"bold {style}"),
                (text, style),
                (" " * gap + binding_id if is_last else "", "$secondary"),
            )
        )
    return lines
