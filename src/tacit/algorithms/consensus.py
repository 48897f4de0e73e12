"""What all consensus methods on a graph share: the point that neighbours pull towards, and how far from agreement."""

from __future__ import annotations

from typing import Any

import numpy as np

TINY = 1e-300  # instead of zero, below a fraction line


def centre_of(f: np.ndarray, heard: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The mean over the neighbours j of (f_i + f_j)/2, (n, d), from the sum of what was heard."""
    return (f + heard / np.maximum(V, 1)) / 2  # an agent alone (V = 0) gives its centre the weight 0


def dual_step(s: Any, heard: np.ndarray, V: np.ndarray, penalty: float | np.ndarray) -> Any:
    """lambda_i += eta/2 sum_j (f_i - f_j), and the centre that it leaves for the next primal step."""
    centre = centre_of(s.f, heard, V)
    return s._replace(dual=s.dual + penalty / 2 * (V * s.f - heard), centre=centre, shift=centre - s.centre)


def residual_norms(
    f: np.ndarray, centre: np.ndarray, shift: np.ndarray, penalty: float | np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Primal ||f_i - mean of neighbours|| and dual ||2 eta V_i (centre_i(t+1) - centre_i(t))||, (n,) each."""
    primal = np.linalg.norm(2 * (f - centre), axis=1) * (V[:, 0] > 0)
    return primal, np.linalg.norm(2 * penalty * V * shift, axis=1)
