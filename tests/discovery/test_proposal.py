"""Proposals against known answers."""

from stamo.discovery.proposals import Occurrence, Proposal, confirmed

GOLD = {"a": {(0, 3): "Rey"}, "b": {(5, 8): "Rey"}, "c": {(0, 3): "Rey (river)"}, "d": {}}


def make_proposal(*places):
    occurrences = tuple(Occurrence(document, start, start + 3) for document, start in places)
    texts = ("1", "name", "Rey", ("Rey",), 3, 3, "", (), (), "", "", 0.5, 1.0)
    return Proposal(*texts, occurrences)


def test_half_of_the_places_confirm_an_entity():
    """Places of another entity, or of none, count against it."""
    assert confirmed(make_proposal(("a", 1), ("b", 5), ("c", 0), ("d", 0)), GOLD) == "Rey"
    assert confirmed(make_proposal(("a", 1), ("d", 0), ("b", 20)), GOLD) == ""
    assert confirmed(make_proposal(("missing", 0)), GOLD) == ""
