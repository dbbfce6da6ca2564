"""Mentions in a report: won and lost, close to the line, and labelled otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from stamo.workspace import report_html as html
from stamo.workspace.labels import describe_choice
from stamo.workspace.scored import SeenMention
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
    close = sorted(_one_per_document(by_distance), key=lambda s: (not s.linked, -s.probability))
    sections = {
        "Labelled otherwise": [s for s in scored if s.is_contradicted][:N_EXAMPLES],
        "Close calls": close,
        f"Won by {entity}": _one_per_document([s for s in ranked if s.linked]),
        "Left to others": _one_per_document([s for s in reversed(ranked) if not s.linked]),
    }
    for title, some in sections.items():
        rows = [_example(s, entity, workspace) for s in some]
        if some and some is close:
            divider = f'<li class="line"><span>the line: linked from {line:.0%} on</span></li>'
            rows.insert(sum(s.linked for s in close), divider)
        yield f"<h3>{escape(title)}</h3>"
        items = f'<ol class="examples panel">{"".join(rows)}</ol>'
        yield items if rows else '<p class="soft">none</p>'


def _example(seen: SeenMention, entity: str, workspace: str) -> str:
    document, tag = seen.document, ""
    mention = document.mentions[seen.index]
    if seen.label is not None:
        tag = f' <span class="tag">labelled {escape(describe_choice(seen.label, entity))}</span>'
    outcome = entity if seen.linked else seen.rival or "nothing known"
    place = html.place(workspace, document.id, seen.index)
    context = cut_context(document.text, mention.start, mention.end, WIDTH)
    return (
        f'<li><div class="what"><b>{seen.probability:.0%}</b> '
        f"<a {place}>{escape(document.title or document.id)}</a> "
        f'<span class="soft">→ {escape(outcome)}</span>{tag}</div>{html.quote(*context)}</li>'
    )


def _one_per_document(scored: Sequence[SeenMention]) -> list[SeenMention]:
    first = {s.document.id: s for s in reversed(scored)}
    return [s for s in scored if first[s.document.id] is s][:N_EXAMPLES]
