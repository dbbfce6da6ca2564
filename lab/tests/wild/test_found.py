"""Judged entities among proposals."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from stamo.discovery.proposals import Occurrence, Proposal, proposal_id
from stamo_lab.cli.main import create_app
from stamo_lab.wild.judged import JudgedEntity, find_judged
from stamo_lab.wild.suite import WildEntity, WildLabel

DAWN = WildEntity("Dawn", "Dawn (probe)", ("Dawn",))
EMPTY = Proposal("", "meaning", "Dawn", ("Dawn",), 0, 0, "", (), (), "", "", 0.5, 0.5)


def label(document, offset, is_entity, alias="Dawn"):
    return WildLabel(alias, document, offset, is_entity, "")


def proposal(name, *places):
    occurrences = tuple(Occurrence(document, start, start + 4) for document, start in places)
    return replace(EMPTY, id=proposal_id("meaning", name, ()), name=name, occurrences=occurrences)


LABELS = [label("a", 10, True), label("b", 0, True), label("c", 5, True), label("d", 7, False)]


@pytest.mark.parametrize(
    ("proposals", "place"),
    [
        ([], None),
        ([[("a", 10)]], None),  # one mention says little
        ([[("a", 14), ("b", 4), ("c", 4)]], None),  # beside the mentions, but for c's
        ([[("a", 7), ("b", 0)]], 1),
        ([[("x", 0)], [("a", 10), ("b", 0)], [("a", 10), ("c", 5)]], 2),
        ([[("a", 10), ("b", 0), ("d", 7)]], 1),
    ],
)
def test_a_proposal_is_what_its_places_were_judged_to_be(proposals, place):
    """At least two places mean the entity, and at least as many as something else."""
    made = [proposal(f"P{i}", *places) for i, places in enumerate(proposals)]
    (found,) = find_judged(made, [DAWN], LABELS)
    name = "" if place is None else made[place - 1].name
    kind = "" if place is None else "meaning"
    assert found == JudgedEntity("Dawn (probe)", 3, place, name, kind)


def test_the_command_counts_the_first_proposals(tmp_path):
    """A folder of proposals and the files of a suite give the table and the counts."""
    found = tmp_path / "found"
    found.mkdir()
    record = {
        "format": "stamo-found",
        "version": 1,
        "origin": {},
        "proposals": [proposal("Dawn", ("a", 10), ("b", 0)).to_json()],
    }
    (found / "proposals.json").write_text(json.dumps(record))
    entities, labels = tmp_path / "entities.json", tmp_path / "labels.tsv"
    entities.write_text(json.dumps({"Dawn": {"name": DAWN.name, "aliases": ["Dawn"]}}))
    rows = [f"{x.alias}\t{x.document}\t{x.offset}\t{int(x.is_entity)}\t" for x in LABELS]
    labels.write_text("\n".join(["alias\tdocument\toffset\tlabel\tsense", *rows]) + "\n")
    arguments = ["judged", str(found), "--entities", str(entities)]
    arguments += ["--labels", str(labels)]
    shown = CliRunner().invoke(create_app(), arguments, catch_exceptions=False).stdout
    assert "Of 1 entities: 1 in 200, 1 in 500, 1 in 1,000." in shown
    printed = CliRunner().invoke(create_app(), [*arguments, "--json"], catch_exceptions=False)
    assert json.loads(printed.stdout)[0]["place"] == 1
