"""The template language and the text files written in it."""

import random

import pytest

from stamo_lab.world.lexicon import (
    TOPICS,
    Piece,
    as_sentence,
    load_lexicon,
    parse,
    plural,
    render,
)


def fill(template, seed=0, **slots):
    pieces = render(template, random.Random(seed), lambda name, before: [slots[name]])
    return "".join(piece.text for piece in pieces)


def all_templates():
    lexicon = load_lexicon()
    for kind in lexicon.kinds.values():
        yield from (*kind.lead, *kind.facts, *kind.news, *kind.cites, kind.gloss, kind.noun)
    for topic in lexicon.topics.values():
        yield from (*topic.wiki, *topic.news)
    for lines in lexicon.general.values():
        yield from lines


def test_alternatives_are_all_used():
    """Each option of a choice, also an empty or nested one, appears for some seed."""
    results = {fill("A [red|[dark |]green] door.", seed) for seed in range(60)}
    assert results == {"A red door.", "A dark green door.", "A green door."}


def test_entity_survives_in_its_piece():
    """A mention stays apart from the text around it."""
    pieces = render("We met {who}.", random.Random(0), lambda name, before: [Piece("Orla", 4)])
    assert pieces == [Piece("We met "), Piece("Orla", 4), Piece(".")]


def test_resolver_sees_the_text_before():
    """A slot can know whether "the" stands before it."""
    seen = []
    render(
        "In the {x}.", random.Random(0), lambda name, before: seen.append(before) or [Piece("y")]
    )
    assert seen == ["In the "]


@pytest.mark.parametrize(
    ("pieces", "sentence"),
    [
        ([Piece("a "), Piece("early start")], "An early start"),
        ([Piece("an "), Piece("late start")], "A late start"),
        ([Piece("it was a "), Piece("Orvale", 1)], "It was an Orvale"),
        ([Piece("a university and an one-off")], "A university and a one-off"),
        ([Piece("grade a "), Piece("")], "Grade a "),
        ([], ""),
    ],
)
def test_articles_and_capitals(pieces, sentence):
    """Sentences start with a capital and say "an" before a vowel, also across pieces."""
    assert "".join(piece.text for piece in as_sentence(pieces)) == sentence


@pytest.mark.parametrize("broken", ["a [b", "[a|b", "[a|[b|c]"])
def test_open_bracket_is_an_error(broken):
    """A choice that is not closed is reported."""
    with pytest.raises(ValueError, match="not closed"):
        parse(broken)


@pytest.mark.parametrize(
    ("noun", "many"), [("penalty", "penalties"), ("chorus", "choruses"), ("valley", "valleys")]
)
def test_plural(noun, many):
    """Plurals follow English spelling."""
    assert plural(noun) == many


def test_there_are_many_templates():
    """The world speaks of at least ten topics in well over 150 sentences, all well-formed."""
    templates = list(all_templates())
    assert len(TOPICS) >= 10
    assert len({t for t in templates if t.endswith(".")}) > 600
    for template in templates:
        parse(template)


def test_mention_templates_mention():
    """News of an entity and citations of it name it exactly once."""
    lexicon = load_lexicon()
    for kind in lexicon.kinds.values():
        for template in (*kind.news, *kind.cites):
            assert template.count("{me}") == 1, template
    for template in lexicon.general["mentions"]:
        assert template.count("{me}") == 1, template
