"""Views of a mention: what the labels can learn from beyond the model's margin."""

from __future__ import annotations

from stamo.features.base import View
from stamo.features.views_context import (
    About,
    EntityContext,
    Sentence,
    SingleEntities,
    Words,
)
from stamo.features.views_names import LongerName, NextWords

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
