"""Mentions in a report: won and lost, close to the line, and labelled otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from stamo.workspace import report_html as html
from stamo.workspace.labels.events import describe_choice
from stamo.workspace.seen import SeenMention
from stamo.workspace.wording import cut_context

N_EXAMPLES = 6
WIDTH = 110


def example_sections(
    scored: Sequence[SeenMention], entity: str, workspace: str, line: float
) -> Iterator[str]:
    """Show mentions, one per document; the line is drawn among the close ones.

    Args:
        scored: All candidate mentions.
        entity: The name of the emerging entity.
        workspace: The name of its folder, for links into the labelling page.
        line: The confidence from which on the entity is linked.
    """
    yield html.heading(
        "Mentions won and lost",
        "Each with its confidence, the document and what it is linked to. Where this report is "
        "read through “stamo label” or “stamo serve”, a title leads to the mention's label.",
    )
    free = [s for s in scored if s.is_free]
    ranked = sorted(free, key=lambda s: (-s.probability, s.document.id, s.index))
    by_distance = sorted(free, key=lambda s: (abs(s.probability - line), s.document.id))
    close = sorted(_one_per_document(by_distance), key=lambda s: -s.probability)
    above = [s for s in close if s.linked]
    below = [s for s in close if not s.linked]
    divider = html.ShownMention("", f"the line: linked from {line:.0%} on")
    sections: tuple[tuple[str, list[SeenMention], list[SeenMention]], ...] = (
        ("Labelled otherwise", [s for s in scored if s.is_contradicted][:N_EXAMPLES], []),
        ("Close calls", above, below),
        (f"Won by {entity}", _one_per_document([s for s in ranked if s.linked]), []),
        (
            "Left to others",
            _one_per_document([s for s in reversed(ranked) if not s.linked]),
            [],
        ),
    )
    for title, first, second in sections:
        rows = [_example(s, entity, workspace) for s in first]
        if title == "Close calls" and close:
            rows += [divider, *(_example(s, entity, workspace) for s in second)]
        yield f"<h3>{escape(title)}</h3>"
        yield html.examples(rows)


def _example(seen: SeenMention, entity: str, workspace: str) -> html.ShownMention:
    document = seen.document
    mention = document.mentions[seen.index]
    return html.ShownMention(
        share=f"{seen.probability:.0%}",
        title=document.title or document.id,
        place=html.place(workspace, document.id, seen.index),
        quote=html.quote(*cut_context(document.text, mention.start, mention.end, WIDTH)),
        outcome=entity if seen.linked else seen.rival or "nothing known",
        label="" if seen.label is None else describe_choice(seen.label, entity),
    )


def _one_per_document(scored: Sequence[SeenMention]) -> list[SeenMention]:
    first = {s.document.id: s for s in reversed(scored)}
    return [s for s in scored if first[s.document.id] is s][:N_EXAMPLES]
