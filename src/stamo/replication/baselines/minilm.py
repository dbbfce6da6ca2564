"""What a practitioner does instead: a frozen sentence encoder, and a classifier or a threshold.

The classifier sees the sentence of a mention as one vector, the threshold one sentence more on each
side: what serves each of them best on the development entities.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from stamo.errors import need
from stamo.system.arrays import Bools, Float32, Float64

ABOUT_THRESHOLD = 0.31
"""Cosine above which a context is about the entity: the best on the development entities."""
ABOUT_SLOPE = 25.0
"""Log odds by which a whole unit of cosine counts; it orders nothing and decides nothing."""


def regression_probabilities(vectors: Float32, labelled: Bools, positive: Bools) -> Float64:
    """Fit a logistic regression on labelled contexts; return the probability of every context.

    Both kinds of labels weigh the same: without that it finds next to nothing where the entity is
    rare (macro F1 .08 and not .53 with twenty labels).

    Args:
        vectors: Contexts, (n, d).
        labelled: Which of them are labelled, (n,).
        positive: Which of these mean the entity, (n,).

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    kinds = np.unique(positive[labelled])
    if len(kinds) < 2:  # nothing to tell apart: all are what the labels are
        return np.full(len(vectors), float(kinds.any()))
    linear = need("sklearn.linear_model", "bench", package="scikit-learn")
    model = linear.LogisticRegression(class_weight="balanced", max_iter=1000)
    model.fit(vectors[labelled], positive[labelled])
    return np.asarray(model.predict_proba(vectors)[:, 1], dtype=np.float64)


def about_probabilities(vectors: Float32, about: Float32) -> Float64:
    """Return how likely each context is about what one line says, by a fixed threshold.

    Args:
        vectors: Contexts of unit length, (n, d).
        about: The line about the entity, of unit length, (d,).
    """
    return np.asarray(expit(ABOUT_SLOPE * ((vectors @ about).astype(np.float64) - ABOUT_THRESHOLD)))
