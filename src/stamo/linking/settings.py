"""The settings of the linker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stamo.errors import SettingsError

LEFT_ALONE = frozenset({"en", "simple"})
"""Languages whose names are written the same wherever they stand."""

MentionChoice = Literal["auto", "given", "detect"]


@dataclass(frozen=True)
class DetectionSettings:
    """Which names are looked for in a text."""

    least_link_probability: float = 0.1
    """A name is detected when at least this share of the articles that contain it link it."""
    least_link_probability_small: float = 0.5
    """The same for names that begin with a small letter: a common noun is a name less often."""

    word_forms: bool = True
    """Find names inside words and in other letters, in languages that write them so."""

    repeated: bool = True
    """Find short forms of names that stand before them in the same document."""

    def __post_init__(self) -> None:
        for share in (self.least_link_probability, self.least_link_probability_small):
            if not 0 <= share <= 1:
                raise SettingsError(
                    f"The least link probability is {share}; it is a share from 0 to 1."
                )


@dataclass(frozen=True)
class LinkerSettings:
    """How text is linked."""

    threshold: float = 0.0
    """A mention whose best candidate has a lower confidence is not linked (NIL)."""
    mentions: MentionChoice = "auto"
    """`given` links the mentions that documents bring, `detect` finds them, `auto` finds them in
    documents that bring none."""
    n_passes: int = 2
    """The first pass links by prior; each further one scores all candidates, with the confident
    links of the pass before as entity context. 1 is linking by prior alone."""
    max_candidates: int | None = 100
    """Candidates kept by prior; None keeps all."""
    n_shown: int = 3
    """Candidates reported for a mention, the best first; at least 2, for the runner-up."""
    explain: bool = False
    """Report why: what each score adds to the lead of the best candidate."""
    batch_size: int = 64
    """Documents linked together."""
    window: int = 100_000
    """Characters linked together; longer texts are cut at the ends of paragraphs or sentences."""
    detection: DetectionSettings = field(default_factory=DetectionSettings)

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise SettingsError(f"The threshold is {self.threshold}; it is a share from 0 to 1.")
        if min(self.n_passes, self.batch_size) < 1 or self.n_shown < 2:
            raise SettingsError(
                "Linking needs at least one pass, one document in a batch and two candidates "
                f"shown, not {self.n_passes}, {self.batch_size} and {self.n_shown}."
            )
        if self.max_candidates is not None and self.max_candidates < 1:
            raise SettingsError(f"Keep at least one candidate, not {self.max_candidates}.")
        if self.window < 1000:
            raise SettingsError(
                f"A window of {self.window} characters gives too little context; use 1000 or more."
            )
