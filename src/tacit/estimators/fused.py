"""A scikit-learn classifier that uses DP-ADMM: `PrivateFusedLogisticRegression`. Needs `tacit-learn[sklearn]`.

>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(2000, 4))
>>> y = np.where(X @ [1.0, 1.0, 0.0, -1.0] + 0.3 * rng.normal(size=2000) > 0, "yes", "no")
>>> model = PrivateFusedLogisticRegression(epsilon=1.0, delta=1e-6, classes=["no", "yes"]).fit(X, y)
>>> model.privacy_.private, model.privacy_.epsilon <= 1.0, model.score(X, y) > 0.8
(True, True, True)
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import expit

from tacit.algorithms import DPADMM, AcceleratedDPADMM, hyper
from tacit.composite import FeatureGraph, Term, clipped, graph_guided, lasso, private_graph, public_graph
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.errors import InputError, whole
from tacit.privacy.accounting import Totals, delta_warning, gaussian_steps, rounded_up, totals
from tacit.privacy.events import Event, Free
from tacit.privacy.noise import Noise, SecureNoise, SeededNoise
from tacit.simulation.run import Run
from tacit.simulation.simulate import simulate

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.covariance import GraphicalLasso
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("tacit.estimators needs scikit-learn 1.6 or newer: pip install 'tacit-learn[sklearn]'") from None

__all__ = ["Privacy", "PrivateFusedLogisticRegression", "inverse_covariance_graph"]

_ALONE = Graph.ring(1)


@dataclass(frozen=True)
class Privacy:
    """What a fit has spent, and under which assumptions."""

    private: bool  # whether the fitted model may be called private
    epsilon: float  # of the whole fit, by the accountant with the smallest total
    delta: float
    totals: Totals  # of the whole fit, by every accountant
    events: Counter[Event]  # how many releases of each kind there were
    assumptions: tuple[str, ...]

    @property
    def statement(self) -> str:
        """The guarantee, in one sentence."""
        guarantee = (
            f"({rounded_up(self.epsilon):g}, {self.delta:g})-differentially private, one record replaced by another"
        )
        return guarantee if self.private else f"not private: the noise was seeded; with fresh noise it is {guarantee}"


class PrivateFusedLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression with a graph-guided fused lasso, (epsilon, delta)-private for every record: paper 001,

        min 1/n sum_i log(1 + exp(-y_i x_i.w)) + strength (sum over edges |w_j - s_jk w_k| + sparsity ||w||_1),

    by `DPADMM` or `AcceleratedDPADMM`. The fit releases noisy gradients only, with noise calibrated for the total.

    All parameters are public: choose them without looking at the records. The number of records is public, too.

    epsilon, delta : the total of a fit; a second fit on the same records costs as much again.
    classes : the two labels. If you leave them out, `fit` takes them from y, which reveals that both occur.
    row_norm : rows longer than this are shortened to it, including the constant 1 of the intercept; the rows of a
        prediction as well. Scale the features so that they have similar sizes and a row is about this long.
    fit_intercept : whether rows get that constant. The intercept is not penalised.
    graph : which features belong together. "path": each feature and the next; pairs of features, [(0, 3), (1, 2)]; a
        symmetric matrix of weights; a `FeatureGraph`, for example from `tacit.composite.graph_from_public_sample` or
        `inverse_covariance_graph`; "private": estimated from the records with `graph_share` of epsilon; None.
    strength, sparsity : of the fused lasso, and of the lasso in it.
    rounds, penalty, step, accelerated, average : T, rho, eta/gamma, and the kind of `DPADMM`. Momentum adds up noise:
        use `accelerated` if T is small.
    graph_share, threshold : for the private graph, its share of epsilon and the correlation that makes an edge.
    random_state : None for noise that protects. Anything else makes the fit repeatable, and *not private*.

    After `fit`: `coef_` (1, features), `intercept_` (1,), `classes_`, `privacy_`, `feature_graph_`, `n_features_in_`.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        classes: Sequence[Any] | None = None,
        row_norm: float = 1.0,
        fit_intercept: bool = True,
        graph: Any = "path",
        strength: float = 1e-4,
        sparsity: float = 1.0,
        rounds: int = 300,
        penalty: float = 0.03,
        step: float | None = None,
        accelerated: bool = False,
        average: bool = False,
        graph_share: float = 0.2,
        threshold: float = 0.3,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.row_norm = row_norm
        self.fit_intercept = fit_intercept
        self.graph = graph
        self.strength = strength
        self.sparsity = sparsity
        self.rounds = rounds
        self.penalty = penalty
        self.step = step
        self.accelerated = accelerated
        self.average = average
        self.graph_share = graph_share
        self.threshold = threshold
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # with few records and a small epsilon there is little to learn
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(self, X: Any, y: Any) -> PrivateFusedLogisticRegression:
        """Fits the model; this spends (epsilon, delta) of the records."""
        _checked(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        self.classes_, signs = self._signs(y)
        noise = SecureNoise() if self.random_state is None else SeededNoise(_seed(self.random_state))
        problem = Problem([(self._rows(X), signs)])
        warning = delta_warning(self.delta, len(signs))
        if warning is not None:
            warnings.warn(warning, stacklevel=2)

        self.feature_graph_ = self._graph(X, signs, noise)
        term = self._term(self.feature_graph_, problem.dimension)
        budget = gaussian_steps(self.rounds, self.epsilon, self.delta, besides={term.cost: 1})
        method = AcceleratedDPADMM if self.accelerated else DPADMM
        algorithm = method(
            term=term,
            penalty=self.penalty,
            step=self.step,
            row_norm=self.row_norm,
            average=self.average,
            budget=budget,
        )
        rounds = algorithm.first + self.rounds  # a private graph is paid for in a round of its own
        run = simulate(algorithm, problem, _ALONE, rounds=rounds, noise=noise, measure_every=rounds)
        features = self.n_features_in_
        self.coef_ = run.model[None, :features]
        self.intercept_ = run.model[features:] if self.fit_intercept else np.zeros(1)
        self.privacy_ = self._spent(run)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """w.x + b of each row, (n,), shortened as in `fit`; positive for `classes_[1]`."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        weights = np.concatenate([self.coef_[0], self.intercept_]) if self.fit_intercept else self.coef_[0]
        return np.asarray(self._rows(X) @ weights)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of `classes_`, (n, 2)."""
        positive = expit(self.decision_function(X))
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The more probable of `classes_` for each row, (n,)."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def _signs(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The two labels, and -1 or +1 for each record."""
        check_classification_targets(y)
        if self.classes is None:
            kind = type_of_target(y, input_name="y", raise_unknown=True)
            if kind != "binary":
                raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
            known = np.unique(y)
            if len(known) < 2:
                raise ValueError("two classes are needed, y has one class only; give both as `classes`")
        else:
            try:
                known = np.unique(np.asarray(self.classes))
            except (TypeError, ValueError):
                raise InputError(f"classes must be two labels of the same type, not {self.classes!r}") from None
            if len(known) != 2:
                raise InputError(f"classes must be two different labels, not {self.classes!r}")
            if not np.all(np.isin(y, known)):
                raise InputError(f"y has a label that is not one of the classes {known.tolist()}")
        return known, np.where(np.asarray(y) == known[1], 1.0, -1.0)

    def _rows(self, X: Any) -> Any:
        """The rows, with the intercept's constant, shortened to `row_norm`."""
        if self.fit_intercept:
            ones = np.ones((X.shape[0], 1))
            X = scipy.sparse.hstack([X, ones], format="csr") if scipy.sparse.issparse(X) else np.hstack([X, ones])
        return clipped(X, self.row_norm)

    def _graph(self, X: Any, signs: np.ndarray, noise: Noise) -> FeatureGraph | None:
        d = X.shape[1]
        if self.graph is None or isinstance(self.graph, FeatureGraph):
            graph = self.graph
        elif isinstance(self.graph, str) and self.graph == "path":
            graph = _from_edges([(j, j + 1) for j in range(d - 1)], d)
        elif isinstance(self.graph, str) and self.graph == "private":
            budget = gaussian_steps(1, self.graph_share * self.epsilon, self.delta)
            records = Problem([(clipped(X, self.row_norm), signs)])
            return private_graph(records, noise, budget, self.threshold, row_norm=self.row_norm)
        elif isinstance(self.graph, str):
            raise InputError(f'graph is "path", "private", pairs, a matrix, a FeatureGraph or None, not {self.graph!r}')
        elif isinstance(self.graph, list | tuple):
            graph = _from_list(self.graph, d)
        else:
            graph = public_graph(self.graph)
        if graph is not None and graph.W.shape[0] != d:
            raise InputError(f"the graph is for {graph.W.shape[0]} features, X has {d}")
        return graph

    def _term(self, graph: FeatureGraph | None, dimension: int) -> Term:
        """The fused lasso on the features, nothing on the intercept."""
        d = self.n_features_in_
        if (graph is None or graph.W.nnz == 0) and not self.sparsity:
            raise InputError(
                "the graph has no edges and sparsity is 0: the penalty would be zero; give edges or a sparsity"
            )
        if graph is None:
            term = lasso(d, self.strength * self.sparsity)
        else:
            term = graph_guided(graph, self.strength, sparsity=self.sparsity)
        free = scipy.sparse.csr_array((term.rows, dimension - d))
        A = scipy.sparse.hstack([term.A, free], format="csr") if dimension > d else term.A
        return Term(A, term.g, cost=term.cost, seeded=term.seeded)

    def _spent(self, run: Run) -> Privacy:
        (events,) = run.spent
        total = totals(events, self.delta)
        assumptions = (
            "one record replaced by another; the number of records is public",
            f"rows are shortened to norm {self.row_norm:g}" + (", intercept included" if self.fit_intercept else ""),
            "all parameters were chosen without looking at the records",
            *(("the labels were taken from y, which reveals that both occur",) if self.classes is None else ()),
            *(() if run.private else ("random_state was given: whoever knows it can remove the noise",)),
        )
        return Privacy(run.private, total.best, self.delta, total, events, assumptions)


def inverse_covariance_graph(X: Any, alpha: float) -> FeatureGraph:
    """From a *public* sample of rows, by sparse inverse covariance selection (the paper's [47]): an edge where an entry
    of the graphical lasso's precision is not zero, with the sign of the partial correlation.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 3))
    >>> rows[:, 2] -= 2 * rows[:, 0]
    >>> inverse_covariance_graph(rows, alpha=0.3).W.toarray().tolist()
    [[0.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
    """
    hyper.number("alpha", alpha)
    dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X, dtype=float)
    if not np.all(np.ptp(dense, axis=0) > 0):
        raise InputError("a feature of the sample is constant, so it has no correlations: leave it out")
    try:
        precision = GraphicalLasso(alpha=alpha).fit(dense).precision_
    except FloatingPointError:
        raise InputError(
            f"the graphical lasso does not converge on this sample with alpha={alpha}: raise alpha"
        ) from None
    W = -np.sign(np.triu(precision, 1))
    return FeatureGraph(W + W.T, Free("public: the graph of features is from a public sample"))


def _checked(model: PrivateFusedLogisticRegression) -> None:
    """Checks the parameters, before anything reads the records."""
    for name in ("epsilon", "row_norm", "penalty", "strength"):
        hyper.number(name, getattr(model, name))
    if not 0 < float(model.row_norm) * float(model.row_norm) < np.inf:
        raise InputError(f"row_norm is squared, and {model.row_norm!r} is too large or too small for that")
    hyper.number("sparsity", model.sparsity, zero=True)
    if model.sparsity == 0 and isinstance(model.graph, str) and model.graph == "private":
        raise InputError("a private graph can turn out without edges: give a sparsity above 0")
    if model.step is not None:
        hyper.number("step", model.step)
    for name in ("delta", "graph_share", "threshold"):
        value = getattr(model, name)
        if not (isinstance(value, int | float | np.number) and 0 < value < 1):
            raise InputError(f"{name} must lie between 0 and 1, not {value!r}")
    whole("rounds", model.rounds, 1)


def _from_list(given: Any, features: int) -> FeatureGraph:
    """A matrix, row by row, or pairs. With two features both are two by two: then pairs must be tuples."""
    if len(given) == features and all(isinstance(row, list) and len(row) == features for row in given):
        return public_graph(given)
    return _from_edges(given, features)


def _from_edges(pairs: Any, features: int) -> FeatureGraph:
    """A public graph with an edge of weight 1 for each pair."""
    try:
        places = np.asarray(pairs, dtype=float) if len(pairs) else np.empty((0, 2))
        if places.shape != (len(pairs), 2):
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            f"graph must be pairs of features, such as [(0, 1), (1, 2)], or a matrix with a row and a column for each "
            f"of {features} features; not {pairs!r}"
        ) from None
    if not np.all((places == np.floor(places)) & (places >= 0) & (places < features)) or np.any(
        places[:, 0] == places[:, 1]
    ):
        raise InputError(f"an edge must join two different features from 0 to {features - 1}; not {pairs!r}")
    i, j = places.astype(int).T
    W = scipy.sparse.csr_array((np.ones(len(i)), (np.minimum(i, j), np.maximum(i, j))), shape=(features, features))
    W.data[:] = 1.0  # a pair that occurs twice is one edge
    return public_graph(W + W.T)


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31))
