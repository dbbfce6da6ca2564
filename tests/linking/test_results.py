"""The records of linked mentions."""

from stamo.linking.results import LinkedMention, ScoredCandidate


def test_what_was_declared_of_a_packed_entity_travels():
    """Type and address stand beside id where a pack's entity won, and nowhere else."""
    sandy = ScoredCandidate("Hurricane Sandy", 0.9, 1.0, 0.5, "Q1535", "event", "https://a.org/s")
    known = ScoredCandidate("Sandy, Utah", 0.1, 0.2, 0.5)
    mention = LinkedMention("Sandy", 0, 5, "Hurricane Sandy", 0.9, (sandy, known), in_pack=True)
    record = mention.to_record(all_candidates=False)
    assert (record["id"], record["type"], record["url"]) == ("Q1535", "event", "https://a.org/s")
    other = mention._replace(entity="Sandy, Utah").to_record(all_candidates=False)
    assert (other["id"], "type" in other, "url" in other) == (None, False, False)
