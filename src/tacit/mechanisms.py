"""The only place where a `Release` is made: each function states what leaving costs."""

from __future__ import annotations

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.events import Event, Free, Unprotected
from tacit.release import Release

_POST_PROCESSING = Free("post-processing: computed from released values only")


def unprotected(value: np.ndarray) -> Release:
    """The exact value leaves, without any protection: for the non-private methods.

    >>> unprotected(np.zeros((2, 1))).events
    (Unprotected(), Unprotected())
    """
    return _release(value, Unprotected())


def post_processed(value: np.ndarray) -> Release:
    """A value computed from released values alone, without another look at the data: it costs nothing."""
    return _release(value, _POST_PROCESSING)


def _release(value: np.ndarray, event: Event) -> Release:
    if not np.all(np.isfinite(value)):
        agent = int(np.argwhere(~np.isfinite(value))[0][0])
        raise TacitError(f"row {agent} of a release is not finite: the method has diverged; nothing was sent")
    return Release(value, (event,) * len(value))
