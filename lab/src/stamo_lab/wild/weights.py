"""Learn the weights that the package ships, from real new entities whose mentions were judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stamo.kb.base import KnowledgeBase
from stamo.learning.rehearsal import N_LABELS, Trial, learn_weights
from stamo.models.store import INSTALLED
from stamo.models.weights import Weights, situation_of, weights_for
from stamo_lab.suites.cells import kept_encodings
from stamo_lab.wild.load import LEAST_TEST, RANDOM, LoadedWild, draw_labels, load_wild
from stamo_lab.wild.suite import WildSuite

N_DRAWS = 3
"""Draws of labels of each size."""


def learn_from_suites(suites: Sequence[WildSuite], kb: KnowledgeBase) -> dict[str, Weights]:
    """Return the weights of every situation under which judged mentions are the most likely."""
    found: dict[str, list[Trial]] = {}
    for suite in suites:
        for number in range(len(suite.problems)):
            for situation, trial in _trials(suite, number, kb):
                found.setdefault(situation, []).append(trial)
    return {name: learn_weights(trials, weights_for(name)) for name, trials in found.items()}


def _trials(suite: WildSuite, number: int, kb: KnowledgeBase) -> Iterator[tuple[str, Trial]]:
    """Yield an entity with and without description and encoder, under some draws of labels."""
    kept = kept_encodings(suite.trained, kb, INSTALLED, suite.path, number)
    with kept as encoder:
        for description in (True, False):
            loaded = load_wild(suite, number, kb, encoder, description=description)
            if len(loaded.gold) <= LEAST_TEST:
                return
            for reader in (encoder, None) if encoder else (None,):
                pile = replace(loaded.pile, encoder=reader, kept={})
                yield from _drawn(replace(loaded, pile=pile))


def _drawn(loaded: LoadedWild) -> Iterator[tuple[str, Trial]]:
    for size in N_LABELS:
        if size > len(loaded.gold) - LEAST_TEST:
            continue
        for seed in range(N_DRAWS if size else 1):
            chosen = draw_labels(loaded, size, seed, RANDOM).labelled
            pile = loaded.label(chosen)
            is_label = np.isin(np.arange(len(loaded.gold)), chosen)
            trial = Trial.of(pile, loaded.rows, loaded.gold, loaded.trained)
            yield situation_of(pile), replace(trial, is_label=is_label)
