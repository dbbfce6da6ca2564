"""Views of a mention: what the labels can learn from beyond the model's margin."""

from __future__ import annotations

from stamo.features.views.about import About
from stamo.features.views.base import View
from stamo.features.views.entity_context import EntityContext
from stamo.features.views.longer_name import LongerName
from stamo.features.views.neighbours import NextWords
from stamo.features.views.sentence import Sentence
from stamo.features.views.single_entities import SingleEntities
from stamo.features.views.words import Words

VIEWS: tuple[View, ...] = (
    Words(),
    EntityContext(),
    SingleEntities(),
    NextWords(),
    Sentence(),
    About(),
    LongerName(),
)
"""Every view, with its own prior variance; a new one is a new file and a word here."""
