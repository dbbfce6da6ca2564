"""Linked documents in a terminal: mentions in colours of their confidence, and why."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stamo.linking.results import LinkedDocument, LinkedMention

_LEVELS = ((0.9, "bold green"), (0.6, "yellow"), (0.0, "red"))
_NIL = "dim"
_CONTROLS = {i: "\ufffd" for i in [*range(32), 0x7F, *range(0x80, 0xA0)] if chr(i) not in "\n\t"}


def style_of(mention: LinkedMention) -> str:
    """Choose the colour for a mention by its confidence."""
    if mention.entity is None:
        return _NIL
    return next(style for least, style in _LEVELS if mention.confidence >= least)


def plain(text: str) -> str:
    """Replace control characters: a text must not steer the terminal."""
    return text.translate(_CONTROLS)


def render_text(linked: LinkedDocument) -> Text:
    """Write the text with its entities behind the mentions."""
    text = Text()
    for piece, mention in linked.pieces():
        if mention is None:
            text.append(plain(piece))
            continue
        style = style_of(mention)
        text.append(plain(piece), style=style)
        label = "NIL" if mention.entity is None else plain(mention.entity)
        text.append(
            f" [{label} {mention.confidence:.2f}]", style="dim" if label == "NIL" else style
        )
    return text


def legend(threshold: float) -> Text:
    """Explain the colours."""
    text = Text("confidence: ", style="dim")
    for (least, style), label in zip(_LEVELS, ("0.9 or more", "0.6 or more", "less"), strict=True):
        text.append(f"{label}  " if least or not threshold else "less  ", style=style)
    text.append("NIL: not linked", style=_NIL)
    return text


def render_document(linked: LinkedDocument, *, explain: bool = False) -> RenderableType:
    """Write a document: its name, its text and, when asked for, why each mention was linked."""
    heading = Text(plain(linked.name), style="bold underline")
    if linked.error is not None:
        return Group(heading, Text(plain(linked.error), style="red"))
    parts: list[RenderableType] = [heading, render_text(linked)]
    if explain:
        parts += [explanation(mention) for mention in linked.mentions if mention.candidates]
    return Group(*parts)


def explanation(mention: LinkedMention) -> Table:
    """Say why a mention was linked: by a pack's reasons, or by the scores of the best two."""
    title = f"{plain(mention.surface)} ({mention.start}-{mention.end})"
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    if mention.reasons_for:
        _add_reasons(table, mention)
    else:
        _add_leads(table, mention)
    return table


def _add_reasons(table: Table, mention: LinkedMention) -> None:
    """List what speaks for and against the packed entity, and the answer without the pack."""
    table.add_column(Text(f"for or against {plain(mention.reasons_for)}"))
    table.add_column("")
    table.add_column("adds", justify="right")
    for reason in mention.reasons:
        name = plain(reason.name) if reason.name else "as a whole"
        style = "green" if reason.weight > 0 else "red"
        table.add_row(Text(name), Text(reason.part, style="dim"), f"[{style}]{reason.weight:+.2f}")
    answer = plain(mention.entity or "not linked")
    without = plain(mention.without_packs or "not linked")
    table.caption = Text(f"{answer} ({mention.confidence:.2f}); without packs: {without}")


def _add_leads(table: Table, mention: LinkedMention) -> None:
    """List the candidates of a mention and what each score adds to the lead of the best."""
    best, second = mention.candidates[0], mention.runner_up
    table.add_column("")
    table.add_column(Text(plain(best.entity)), justify="right", style=style_of(mention))
    table.add_column(Text(plain(second.entity)) if second else "no other", justify="right")
    table.add_column("adds to the lead", justify="right")
    lead = f"{best.score - second.score:+.3f}" if second else ""
    other = f"{second.confidence:.3f}" if second else ""
    table.add_row("confidence", f"{best.confidence:.3f}", other, lead)
    for part in mention.why:
        values = (f"{part.best:.3f}", f"{part.runner_up:.3f}" if second else "")
        table.add_row(part.name, *values, f"{part.lead:+.3f}" if second else "")
