"""Encoded records: what a solver, a split and a partition work on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tacit.errors import InputError

_CLASSES = 20  # labels with more values are shown as numbers


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of features with their labels.

    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), names=("a", "b", "c"), kept=np.arange(3))
    >>> len(data), data.take([2, 0]).kept.tolist()
    (3, [2, 0])
    """

    X: np.ndarray | csr_array  # (rows, features)
    y: np.ndarray | None  # (rows,) of -1 and +1, or a target in [-1, 1]; None when unlabelled
    names: tuple[str, ...]  # of the features
    kept: np.ndarray  # (rows,) which row of the file each row is
    clipped: dict[str, int] = field(default_factory=dict)  # values of the whole file outside their column's bounds
    unknown: dict[str, int] = field(default_factory=dict)  # cells of the whole file that hold no category of the schema

    def __post_init__(self) -> None:
        rows, features = self.X.shape
        sizes = (rows, len(self.kept), rows if self.y is None else len(self.y), features, len(self.names))
        if not (sizes[0] == sizes[1] == sizes[2] and sizes[3] == sizes[4]):
            raise InputError(
                f"a data set needs as many labels and row numbers as rows, and a name per feature; "
                f"X is {rows} x {features}, y has {sizes[2]}, kept {sizes[1]}, names {sizes[4]}; make them fit"
            )

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def _repr_html_(self) -> str:
        from tacit import html  # for notebooks alone

        shape: list[tuple[str, object]] = [("rows", f"{len(self):,}"), ("features", f"{self.X.shape[1]:,}")]
        if self.y is None:
            return html.card("Dataset", [*shape, ("labels", "none")])
        found, counts = np.unique(self.y, return_counts=True)
        if len(found) > _CLASSES:
            return html.card("Dataset", [*shape, ("labels", f"numbers from {found[0]:.4g} to {found[-1]:.4g}")])
        return html.card("Dataset", shape, html.bars([f"label {value:g}" for value in found], counts.tolist()))

    def take(self, indices: Sequence[int] | np.ndarray) -> "Dataset":
        """The rows of these indices, in this order. `clipped` and `unknown` are still about the whole file."""
        rows = np.asarray(indices, dtype=np.intp)
        y = None if self.y is None else self.y[rows]
        return replace(self, X=self.X[rows], y=y, kept=self.kept[rows])

    def parts(self, indices: Sequence[np.ndarray]) -> list[tuple[Any, np.ndarray | None]]:
        """(X_i, y_i) for each agent's rows, as the functions of `tacit.data.partition` give them.

        >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), ("a", "b", "c"), np.arange(3))
        >>> [y.tolist() for X, y in data.parts([np.array([0, 1]), np.array([2])])]
        [[1.0, -1.0], [1.0]]
        """
        taken = (self.take(rows) for rows in indices)
        return [(part.X, part.y) for part in taken]

    def split(self, train: int = 40_000, seed: int = 0) -> tuple["Dataset", "Dataset"]:
        """`train` rows drawn at random, and the others.

        >>> data = Dataset(np.eye(3), None, ("a", "b", "c"), np.arange(3))
        >>> [len(part) for part in data.split(train=2)]
        [2, 1]
        """
        if not 0 < train < len(self):
            raise InputError(
                f"a split leaves rows on both sides; train={train} of {len(self)} rows does not; "
                f"choose train between 1 and {len(self) - 1}"
            )
        order = np.random.default_rng(seed).permutation(len(self))
        return self.take(order[:train]), self.take(order[train:])
