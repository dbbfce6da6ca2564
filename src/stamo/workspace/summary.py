"""What is kept of a learning run beside its pack, for the report and for the next run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stamo.packs.pack import EntityPack
from stamo.system.files import read_json
from stamo.workspace.labels.history import Check
from stamo.workspace.verdict import Findings

SUMMARY = ".summary.json"
"""Its file, in the folder of the slots."""


@dataclass(frozen=True)
class LearnSummary:
    """What is kept of a run beside its pack, for the report."""

    pack: str
    """The fingerprint of the pack that it belongs to."""
    labels: str
    """The fingerprint of the labels that it knew."""
    pile_helped: bool
    used_slot: int
    findings: Findings
    checked: list[tuple[str, int]]
    """Document and start of each left-out label, in the order of the findings."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What it learned with, as plain values."""

    @property
    def checks(self) -> dict[tuple[str, int], Check]:
        """What a run without each label says of it."""
        found = zip(self.findings.probabilities, self.findings.decisions, strict=True)
        return {place: Check(*said) for place, said in zip(self.checked, found, strict=True)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LearnSummary:
        """Read it from plain values."""
        findings = Findings.from_json(value["findings"])
        checked = [(str(document), int(start)) for document, start in value["checked"]]
        return cls(**value | {"findings": findings, "checked": checked})


def read_summary(slots_dir: Path, pack: EntityPack | None = None) -> LearnSummary | None:
    """Return what was kept of the last run; None where it wrote another pack or is missing."""
    path = slots_dir / SUMMARY
    if not path.exists():
        return None
    try:
        summary = LearnSummary.from_json(read_json(path))
    except (TypeError, KeyError, ValueError):
        return None  # of another version
    return summary if pack is None or summary.pack == pack.fingerprint else None
