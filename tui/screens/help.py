"""F1: what the screen is for, and its keys as they are bound now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Static

if TYPE_CHECKING:
    from textual import getters

    from tui.app import RaidlabApp


class HelpScreen(ModalScreen[None]):
    """Over the screen that it explains.

    Args:
        about: that screen.
    """

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,question_mark", "close", "Close", id="help.close", tooltip="Back to the screen"),
    ]
    if TYPE_CHECKING:
        app = getters.app(RaidlabApp)

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
            yield Static(key_table(self.app, self._about), id="help-keys")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#help-box").focus()

    def action_close(self) -> None:
        self.dismiss()


def key_table(app: RaidlabApp, screen: Screen[Any]) -> Content:
    """Key, what it does, and the id for a keymap file; the screen's own first, those that do nothing now dimmed."""
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
    width = max((len(row[0]) for _, row in rows), default=0)
    lines = [Content("")]
    for binding_id, (key, what, tooltip, is_enabled) in rows:
        key_style = "bold $footer-key-foreground" if is_enabled else "$text-muted"
        lines.append(
            Content.assemble(
                (f" {key:>{width}}  ", key_style),
                (f"{what:<14} ", "bold" if is_enabled else "$text-muted"),
                (tooltip, "" if is_enabled else "$text-muted"),
                (f"  {binding_id}", "$secondary"),
            )
        )
    lines.append(Content.from_markup("\n[$secondary] Ids on the right are for keymap.toml; see docs/student.md.[/]"))
    return Content("\n").join(lines)
