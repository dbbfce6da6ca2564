"""The JSON that goes in and out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from stamo.linking.results import LinkedMention
from stamo.packs.pack import EntityPack, PackEntry
from stamo.service.jobs import Job
from stamo.service.parts import Guess, LabellingProgress, Question, WorkspaceInfo

N_SHOWN = 20

Name = Annotated[str, Field(min_length=1, max_length=100)]


class _In(BaseModel):
    """Unknown fields are mistakes; values are not guessed from other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LinkIn(_In):
    """A text to link."""

    text: str


class CandidateOut(BaseModel):
    """A candidate entity."""

    entity: str
    confidence: float
    score: float
    prior: float


class ReasonOut(BaseModel):
    """What one score adds to the lead over the runner-up."""

    name: str
    best: float
    runner_up: float
    lead: float


class MentionOut(BaseModel):
    """A linked mention; offsets count characters (code points)."""

    start: int
    end: int
    surface: str
    entity: str | None
    confidence: float
    emerging: bool
    runner_up: CandidateOut | None
    candidates: list[CandidateOut]
    why: list[ReasonOut]

    @classmethod
    def of(cls, mention: LinkedMention, emerging: frozenset[str]) -> MentionOut:
        """Turn a linked mention into JSON."""
        candidates = [
            CandidateOut(
                entity=c.entity,
                confidence=round(c.confidence, 4),
                score=round(c.score, 4),
                prior=round(c.prior, 4),
            )
            for c in mention.candidates
        ]
        return cls(
            start=mention.start,
            end=mention.end,
            surface=mention.surface,
            entity=mention.entity,
            confidence=round(mention.confidence, 4),
            emerging=mention.entity in emerging,
            runner_up=candidates[1] if len(candidates) > 1 else None,
            candidates=candidates,
            why=[
                ReasonOut(
                    name=w.name,
                    best=round(w.best, 4),
                    runner_up=round(w.runner_up, 4),
                    lead=round(w.lead, 4),
                )
                for w in mention.why
            ],
        )


class LinkOut(BaseModel):
    """The mentions of a text."""

    mentions: list[MentionOut]
    seconds: float


class PackOut(BaseModel):
    """A pack in the list; `problem` says why it is not used."""

    key: str
    entity: str | None
    aliases: list[str]
    description: str
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
            aliases=list(pack.entity.aliases) if pack else [],
            description=pack.description if pack else "",
            fingerprint=pack.fingerprint if pack else "",
            size=entry.path.stat().st_size if entry.path.exists() else 0,
            problem=entry.problem,
        )


class PackDetailOut(PackOut):
    """All that a person wants to know of a pack."""

    priors: dict[str, float]
    related: list[tuple[str, float]]
    """The most related neighbours, best first."""
    n_neighbours: int
    dimensions: int
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
        priors = zip(pack.entity.aliases, pack.priors.tolist(), strict=True)
        return cls(
            **PackOut.of(entry).model_dump(),
            priors={alias: round(prior, 4) for alias, prior in priors},
            related=_most_related(pack),
            n_neighbours=len(pack.neighbours),
            dimensions=len(pack.vector),
            kb_fingerprint=pack.kb_fingerprint,
            model_fingerprint=pack.model_fingerprint,
            labels_fingerprint=pack.labels_fingerprint,
            history=[dict(slot) for slot in pack.history],
            notes=dict(pack.notes),
        )


def _most_related(pack: EntityPack) -> list[tuple[str, float]]:
    best = (-pack.relatedness).argsort(kind="stable")[:N_SHOWN]
    return [(pack.titles[i], round(float(pack.relatedness[i]), 4)) for i in best.tolist()]


class ProgressOut(BaseModel):
    """How far the labels of a workspace are."""

    n_labelled: int
    n_skipped: int
    n_left: int
    target: int
    by: dict[str, int]
    advice: str

    @classmethod
    def of(cls, progress: LabellingProgress) -> ProgressOut:
        """Turn a progress into JSON."""
        return cls(
            n_labelled=progress.n_labelled,
            n_skipped=progress.n_skipped,
            n_left=progress.n_left,
            target=progress.target,
            by=dict(progress.by),
            advice=progress.advice,
        )


class WorkspaceOut(BaseModel):
    """One emerging entity and where its workspace stands."""

    name: str
    entity: str
    aliases: list[str]
    next_step: str
    progress: ProgressOut
    has_report: bool

    @classmethod
    def of(cls, info: WorkspaceInfo) -> WorkspaceOut:
        """Turn a workspace into JSON."""
        return cls(
            name=info.name,
            entity=info.entity,
            aliases=list(info.aliases),
            next_step=info.next_step,
            progress=ProgressOut.of(info.progress),
            has_report=info.has_report,
        )


class NextIn(_In):
    """Who asks for a mention to label."""

    client: Name
    """Any text that stays the same for one open page; a mention is kept for it."""


class ChoiceOut(BaseModel):
    """A candidate entity to choose."""

    choice: str
    entity: str
    line: str
    emerging: bool


class QuestionOut(BaseModel):
    """A candidate mention in its context."""

    document: str
    mention: int
    title: str | None
    before: str
    surface: str
    after: str
    choices: list[ChoiceOut]

    @classmethod
    def of(cls, question: Question | None) -> QuestionOut | None:
        """Turn a question into JSON."""
        if question is None:
            return None
        return cls(
            document=question.document,
            mention=question.mention,
            title=question.title,
            before=question.before,
            surface=question.surface,
            after=question.after,
            choices=[
                ChoiceOut(choice=c.choice, entity=c.entity, line=c.line, emerging=c.emerging)
                for c in question.choices
            ],
        )


class NextOut(BaseModel):
    """The next mention to label, None when all are labelled or taken."""

    question: QuestionOut | None
    progress: ProgressOut


class LabelIn(_In):
    """What a person decided on one mention."""

    document: Annotated[str, Field(max_length=2000)]
    mention: Annotated[int, Field(ge=0)]
    who: Name
    client: Name
    choice: Annotated[str, Field(min_length=1, max_length=2000)]
    """One of the question's choices, `@none` for "none of these", or `@skip`."""


class GuessOut(BaseModel):
    """What the linking model would have said."""

    choice: str
    entity: str
    confidence: float

    @classmethod
    def of(cls, guess: Guess | None) -> GuessOut | None:
        """Turn a guess into JSON."""
        if guess is None:
            return None
        return cls(choice=guess.choice, entity=guess.entity, confidence=round(guess.confidence, 4))


class LabelOut(BaseModel):
    """The label is kept; only now comes the model's guess."""

    guess: GuessOut | None
    progress: ProgressOut


class UndoIn(_In):
    """Whose last decision is taken back."""

    who: Name
    client: Name


class JobOut(BaseModel):
    """A background job."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    workspace: str
    state: str
    progress: float
    message: str
    attempts: int
    created: str
    updated: str

    @classmethod
    def of(cls, job: Job) -> JobOut:
        """Turn a job into JSON."""
        return cls.model_validate(job)


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
