"""The JSON that goes in and out, where it is not a value of the service as it is.

Requests are checked field by field. An answer is read off the attributes of what it shows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from stamo.discovery.proposals import Proposal
from stamo.linking.results import LinkedMention
from stamo.packs.folder import PackEntry
from stamo.workspace.desk import Guess, LabellingProgress, Question
from stamo.workspace.labels import LabellerPair
from stamo.workspace.verdict import Ask

N_SHOWN = 20

Name = Annotated[str, Field(min_length=1, max_length=100)]
Id = Annotated[str | None, BeforeValidator(lambda value: value or None)]
Rounded = Annotated[float, AfterValidator(lambda value: round(value, 4))]


class _In(BaseModel):
    """Unknown fields are mistakes; values are not guessed from other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Out(BaseModel):
    """Made from anything that has the attributes."""

    model_config = ConfigDict(from_attributes=True)


ShortText = Annotated[str, Field(max_length=2000)]


class LinkIn(_In):
    """A text to link."""

    text: str


class TryIn(_In):
    """A few sentences to link."""

    text: Annotated[str, Field(max_length=10_000)]


class CandidateOut(_Out):
    """A candidate entity."""

    entity: str
    id: Id
    confidence: Rounded
    score: Rounded
    prior: Rounded


class ReasonOut(_Out):
    """What one score adds to the lead over the runner-up."""

    name: str
    best: Rounded
    runner_up: Rounded
    lead: Rounded


class PackReasonOut(_Out):
    """A word, neighbour or entity for (above 0) or against a packed entity."""

    part: str
    name: str
    weight: Rounded


class MentionOut(_Out):
    """A linked mention; offsets count characters (code points)."""

    start: int
    end: int
    surface: str
    entity: str | None
    id: Id
    """What its entity is called elsewhere, such as Q29584."""
    confidence: Rounded
    best: str | None = None
    """The best candidate of a mention that is linked to nothing."""
    probability: Rounded | None = None
    """How probable that candidate is."""
    emerging: bool = False
    runner_up: CandidateOut | None
    candidates: list[CandidateOut]
    why: list[ReasonOut]
    in_pack: bool
    without_packs: str | None
    """The answer without packs, where a pack knows the name."""
    reasons_for: str
    reasons: list[PackReasonOut]
    """The weightiest first."""


class LinkOut(BaseModel):
    """The mentions of a text."""

    mentions: list[MentionOut]
    seconds: Rounded

    @classmethod
    def of(
        cls, linked: Sequence[LinkedMention], emerging: Collection[str], seconds: float
    ) -> LinkOut:
        """Turn linked mentions into JSON; `emerging` are the entities of packs."""
        mentions = [MentionOut.model_validate(mention) for mention in linked]
        for mention in mentions:
            mention.emerging = mention.in_pack and mention.entity in emerging
        return cls(mentions=mentions, seconds=seconds)


class PackOut(BaseModel):
    """A pack in the list; `problem` says why it is not used."""

    key: str
    entity: str | None
    id: str | None
    type: str | None
    url: str | None
    aliases: list[str]
    description: str
    learned_from: str
    fingerprint: str
    size: int
    problem: str

    @classmethod
    def of(cls, entry: PackEntry) -> PackOut:
        """Turn a file of the folder into JSON."""
        pack = entry.pack
        return cls(
            key=entry.key,
            entity=pack.entity.id if pack else None,
            id=(pack.entity.external_id or None) if pack else None,
            type=(pack.entity.type or None) if pack else None,
            url=(pack.entity.url or None) if pack else None,
            aliases=list(pack.entity.aliases) if pack else [],
            description=pack.entity.description if pack else "",
            learned_from=pack.description if pack else "",
            fingerprint=pack.fingerprint if pack else "",
            size=entry.path.stat().st_size if entry.path.exists() else 0,
            problem=entry.problem,
        )


class PackDetailOut(PackOut):
    """All that a person wants to know of a pack."""

    priors: dict[str, Rounded]
    related: dict[str, Rounded]
    """The most related neighbours, best first."""
    kb_fingerprint: str
    model_fingerprint: str
    labels_fingerprint: str
    history: list[dict[str, Any]]
    notes: dict[str, str]

    @classmethod
    def of(cls, entry: PackEntry) -> PackDetailOut:
        """Turn a usable pack into JSON."""
        pack = entry.pack
        assert pack is not None
        return cls(
            **PackOut.of(entry).model_dump(),
            priors=dict(zip(pack.entity.aliases, pack.priors.tolist(), strict=True)),
            related=dict(pack.strongest_neighbours(N_SHOWN)),
            kb_fingerprint=pack.kb_fingerprint,
            model_fingerprint=pack.model_fingerprint,
            labels_fingerprint=pack.labels_fingerprint,
            history=[dict(slot) for slot in pack.history],
            notes=dict(pack.notes),
        )


class PersonIn(_In):
    """Who asks; the mention that is shown is kept for this person."""

    who: Name


class NextIn(PersonIn):
    """Who asks for a mention to label, and for which."""

    ask: Ask = ""
    """What teaches most, or mentions that are `probable` or `doubtful` ones of the entity."""


class OwnPack(_Out):
    """The pack that a workspace learned last."""

    fingerprint: str
    """The packs that are linked with have theirs, too: the same is in use."""
    is_fit: bool
    """Whether it may be used as it is."""
    verdict: str
    """What to do with it, in one sentence."""


class WorkspaceInfo(_Out):
    """One emerging entity and where its workspace stands."""

    name: str
    entity: str
    aliases: tuple[str, ...] = ()
    next_step: str
    progress: LabellingProgress = LabellingProgress()
    has_report: bool = False
    pack: OwnPack | None = None
    problem: str = ""
    """What is wrong with its folder; then nothing else is known."""


class NextOut(_Out):
    """The next mention to label, None when all are labelled or taken."""

    question: Question | None
    progress: LabellingProgress


class LabelIn(NextIn):
    """What a person decided on one mention, and which they want to see next."""

    document: Annotated[str, Field(max_length=2000)]
    mention: Annotated[int, Field(ge=0)]
    choice: Annotated[str, Field(min_length=1, max_length=2000)]
    """One of the question's choices, another title of the knowledge base, `@none` for "none of
    these", or `@skip`."""
    only: bool = False
    """Whether it holds for this mention alone, not for others of its name in the document."""
    change: bool = False
    """Whether the mention may have a label already."""


class LabelOut(NextOut):
    """The label is kept: the next mention, and only now the model's guess."""

    guess: Guess | None


class CheckOut(_Out):
    """What a run that did not see the label says."""

    probability: Rounded
    is_entity: bool


class LabelEntryOut(_Out):
    """One labelled mention in the history."""

    document: str
    mention: int | None
    title: str
    shown: list[str]
    """The text before the mention, the mention, the text after it."""
    choice: str
    answer: str
    only: bool
    labeller: str
    at: str
    said: list[str]
    check: CheckOut | None
    differs: bool


class HistoryOut(_Out):
    """The labels that were asked for, and how far labellers agree."""

    labels: list[LabelEntryOut]
    n: int
    agreement: list[LabellerPair]


class DocumentOut(_Out):
    """A collected document."""

    id: str
    title: str | None
    text: str


class FoundOut(BaseModel):
    """A page of what was discovered."""

    is_served: bool
    """Whether the service has a folder of proposals."""
    n: int
    """Open proposals of this kind."""
    proposals: list[Proposal]
    under_way: dict[str, str]
    """The workspaces that are being made, by the id of their proposal."""


class AcceptIn(_In):
    """Who accepts a proposal, and the name of its workspace."""

    who: Name
    workspace: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$")]
    labels: bool = False
    """Keep the suggested labels as labels of this person."""


class StatusOut(BaseModel):
    """What this service is."""

    version: str
    knowledge_base: str
    n_packs: int
    token_needed: bool
    max_characters: int


class ErrorOut(BaseModel):
    """What went wrong, in one sentence."""

    error: str
