"""Invented names."""

import random

from stamo_lab.world.catalogue import NameMaker, demonym, variant


def test_names_are_new_and_pronounceable():
    """No name repeats or equals a forbidden word, and each has a vowel and plain letters."""
    maker = NameMaker(random.Random(3), ["harbour"])
    names = [maker.coin("places", i) for i in range(3000)] + [
        maker.coin("surnames", i) for i in range(3000)
    ]
    assert len(set(names)) == len(names)
    assert "Harbour" not in names
    assert all(name.isascii() and name.isalpha() and name.istitle() for name in names)
    assert all(set(name.lower()) & set("aeiouy") for name in names)


def test_same_seed_same_names():
    """Names depend on the seed alone."""
    first, second = (NameMaker(random.Random(5), []) for _ in range(2))
    assert [first.coin("given", i) for i in range(50)] == [
        second.coin("given", i) for i in range(50)
    ]


def test_demonym_and_variant_differ_from_the_name():
    """The adjective continues the name where it can; a variant is another spelling."""
    assert demonym("Orvala") == "Orvalan"
    assert demonym("Dornovar") == "Dornovarian"
    assert variant("Kelvik", random.Random(0)) != "Kelvik"
