"""A problem without its data: what is public of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.core.constants import RADIUS, constants
from tacit.core.data_check import checked_sizes
from tacit.core.losses import Loss
from tacit.core.multinomial import Multinomial
from tacit.core.problem import Problem
from tacit.errors import InputError


class Facts(Problem):
    """What is public of a problem: how many rows each agent has, the dimension, the loss and the constants.

    >>> Facts(sizes=[8000] * 5, dimension=104, l2=0.01)
    Facts(5 agents, 40000 rows, dimension 104, Logistic())
    """

    def __init__(
        self,
        *,
        sizes: Sequence[int] | np.ndarray,
        dimension: int,
        loss: Loss | None = None,
        scale: float | np.ndarray = 1.0,
        l2: float = 0.0,
        tolerance: float = 1e-9,
        radius: float = RADIUS,
    ) -> None:
        rows = checked_sizes(sizes)
        if dimension < 1:
            raise InputError(f"the dimension is 1 or more, not {dimension}")
        if isinstance(loss, Multinomial) and dimension % loss.classes:
            raise InputError(
                f"a model of {loss.classes} classes has a row of weights for each: its dimension is "
                f"{loss.classes} times the number of features, not {dimension}"
            )
        self._sizes, self._dimension = rows, dimension
        self.loss, self.scale, self.l2, self.tolerance, self.radius = constants(
            len(rows), loss, scale, l2, tolerance, radius
        )

    @classmethod
    def of(cls, problem: Problem) -> Facts:
        """The public facts of a problem with data."""
        return cls(sizes=problem.sizes, dimension=problem.dimension, **problem.constants._asdict())

    def __repr__(self) -> str:
        return super().__repr__().replace("Problem", "Facts")

    @property
    def agents(self) -> int:
        return len(self._sizes)

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    def take(self, ids: Sequence[int] | np.ndarray) -> Facts:
        places = np.asarray(ids)
        given = self.constants._replace(scale=self.scale[places])
        return Facts(sizes=self._sizes[places], dimension=self._dimension, **given._asdict())

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension))

    def data_gradient(self, f: np.ndarray) -> np.ndarray:
        """Zeros: there is no data."""
        return self.gradient(f)

    def sampled_data_gradient(self, f: np.ndarray, chosen: np.ndarray, rate: float) -> np.ndarray:
        """Zeros: there is no data."""
        return self.gradient(f)

    def smoothness(self) -> np.ndarray:
        """The smoothness of rows of zeros."""
        return np.full(self.agents, self.l2)

    def value(self, f: np.ndarray) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros(self.agents)

    def second_moment(self) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension, self._dimension))

    def argmin(self, linear: Any, weight: Any, centre: Any, start: Any = 0.0) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension))

    def sure_argmin(self, b: Any, rho: Any, start: Any, sure: Any) -> np.ndarray:
        """Zeros: there is no data."""
        return np.zeros((self.agents, self._dimension))

    def require_row_norm(self, bound: float) -> None:
        """Nothing: there are no rows; the real run checks them."""
