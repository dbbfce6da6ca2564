"""The settings of the linker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stamo.errors import SettingsError
from stamo.linking.detection import DetectionSettings

MentionChoice = Literal["auto", "given", "detect"]


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
