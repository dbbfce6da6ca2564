"""Routes to look at labels again: the history, any mention, its document, other entities."""

from __future__ import annotations

from fastapi import APIRouter

from stamo.service.parts import ServiceParts
from stamo.service.schemas import ChoiceOut, DocumentOut, HistoryOut, Question, ShortText

MOST_LISTED = 500


def history_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that show what was labelled and what can be."""
    router = APIRouter(prefix="/api/workspaces", tags=["workspaces"])
    spaces = parts.workspaces

    @router.get("/{name}/labels")
    def list_labels(
        name: str,
        search: ShortText = "",
        answer: ShortText = "",
        who: ShortText = "",
        differs: bool = False,
    ) -> HistoryOut:
        """List the labels, the newest first, by a text in them, their answer or their labeller.

        With `differs`, only those that the other labels contradict.
        """
        kept = [
            entry
            for entry in spaces.labels(name)
            if entry.matches(search)
            and answer in ("", entry.answer)
            and who in ("", entry.labeller)
            and (entry.differs or not differs)
        ]
        return HistoryOut.model_validate(
            {"labels": kept[:MOST_LISTED], "n": len(kept), "agreement": spaces.agreement(name)}
        )

    @router.get("/{name}/mention")
    def show_mention(name: str, document: ShortText, mention: int) -> Question:
        """Give any candidate mention with its choices and its label."""
        return spaces.mention(name, (document, mention))

    @router.get("/{name}/document")
    def show_document(name: str, document: ShortText) -> DocumentOut:
        """Give the whole text of a collected document."""
        return DocumentOut.model_validate(spaces.document(name, document))

    @router.get("/{name}/entities")
    def find_entities(name: str, search: ShortText) -> list[ChoiceOut]:
        """Find entities of the knowledge base by the beginning of a name."""
        spaces.info(name)
        return [ChoiceOut.model_validate(choice) for choice in spaces.find(search)]

    return router
