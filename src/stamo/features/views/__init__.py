"""Views of a mention: what the labels can learn from beyond the model's margin."""

from __future__ import annotations

from stamo.features.views.about import About
from stamo.features.views.base import View
from stamo.features.views.context import EntityContext, SingleEntities, Words
from stamo.features.views.longer_name import LongerName
from stamo.features.views.neighbours import NextWords
from stamo.features.views.sentence import Sentence

VIEWS: tuple[View, ...] = (
    Words(),
    EntityContext(),
    SingleEntities(),
    NextWords(),
    Sentence(),
    About(),
    LongerName(),
)
"""Every view, with its own prior variance; a new one is a class and a word here."""
