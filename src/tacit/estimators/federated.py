"""Estimators for records that lie in several places: each organisation keeps its own, and they fit one model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from tacit.core.graph import Graph
from tacit.data import partition
from tacit.data.columns import Label, Target
from tacit.errors import InputError
from tacit.estimators import labels
from tacit.estimators.base import Bill, PrivateEstimator, digest
from tacit.estimators.fitting import Fitted, Parts, fit_exactly, fit_privately, plan_privately
from tacit.estimators.privacy import exact_privacy
from tacit.estimators.scaling import Scaling, public_bounds
from tacit.run.budget import Budget
from tacit.run.graphs import auto_graph
from tacit.run.request import Request
from tacit.run.spec import RunSpec
from tacit.run.trust import Reserve, Trust

NOISY = "noisy"  # as a share of positives: measured by a noisy count


class _Federated(PrivateEstimator):
    """What the classifier and the regressor have in common: sites, bounds, and the fit itself."""

    method: Any
    graph: Any
    bounds: Any
    intercept: bool
    l2: float | None
    colluders: int | None
    dropouts: int
    n_features_in_: int

    def _check(self, *public: str) -> Request:
        """What is asked for. Refuses parameters, before anything reads the records; a private fit needs those named in
        `public`."""
        if self.epsilon is None and self.ledger is not None:
            raise InputError("a ledger pays for private fits: give epsilon, too, or leave out the ledger")
        if self.epsilon is not None:
            self._check_budget()
            for name in ("bounds", *public):
                if getattr(self, name) is None:
                    raise InputError(f"a private fit needs {name} from public knowledge: what y or X holds is private")
        if isinstance(self.method, RunSpec):
            return self._specified(self.method)
        return Request(
            method=None if self.method == "auto" else self.method,
            budget=None if self.epsilon is None else self._budget,
            trust=Trust(self.colluders, self.dropouts),
            l2=self.l2,
        )

    @property
    def _budget(self) -> Budget:
        """A run as data says itself why its delta is right."""
        told = self.method.budget if isinstance(self.method, RunSpec) else None
        mine = super()._budget
        return mine if told is None or mine.reason else replace(mine, reason=told.reason)

    def _specified(self, spec: RunSpec) -> Request:
        """A run as data says everything about itself: other parameters may repeat it, and not contradict it."""
        total = None if spec.budget is None else (spec.budget.epsilon, spec.budget.delta)
        if total != (None if self.epsilon is None else (self.epsilon, self.delta)):
            raise InputError(f"the total of the run is {spec.budget}: give the same epsilon and delta")
        if (self.colluders, self.dropouts, self.l2) != (None, 0, None) or self.graph != "auto":
            raise InputError("the run says who talks to whom, and all its settings: leave out graph, colluders, l2")
        return Request(spec=spec)

    def _fit(self, X: np.ndarray, y: np.ndarray, sites: Any, label: Label, request: Request) -> Fitted:
        """Fits the weights of the rows of X, whose labels are encoded; sets what is not about labels."""
        rows, names = _sites(sites, X)
        spec = request.spec
        graph = _graph(self.graph if spec is None else spec.graph, len(names), request.trusted.reserve)
        if self.bounds is None:
            scaling = Scaling.of(X, bool(self.intercept))
        else:
            columns = getattr(self, "feature_names_in_", None)
            scaling = Scaling.public(public_bounds(self.bounds, X.shape[1], columns), bool(self.intercept))
        u = scaling.rows(X)
        parts = [(u[mine], y[mine]) for mine in rows]
        if self.epsilon is None:
            fitted = self._fit_exactly(parts, label, graph, request)
        else:
            fitted = self._fit_privately(parts, label, graph, request, apart=sites is not None)
        self.sites_ = {name: len(mine) for name, mine in zip(names, rows, strict=True)}
        self.graph_, self.history_, self.spec_ = graph, fitted.history, fitted.spec
        self._scaling, self._loss = scaling, fitted.loss
        self._weights = fitted.weights.reshape(label.outputs, -1)
        return fitted

    def _fit_exactly(self, parts: Parts, label: Label, graph: Graph, request: Request) -> Fitted:
        fitted = fit_exactly(parts, label, graph, request)
        if not fitted.converged:
            warnings.warn(
                f"the sites do not quite agree after {fitted.history['round'][-1]} rounds: choose a graph with more "
                "edges, or another method",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.privacy_ = exact_privacy()
        return fitted

    def _fit_privately(self, parts: Parts, label: Label, graph: Graph, request: Request, *, apart: bool) -> Fitted:
        """Plans, pays and fits, in this order."""
        sizes, features, colluders = [len(y) for _, y in parts], parts[0][0].shape[1], request.trusted.colluders
        planned = plan_privately(sizes, features, label, graph, request)
        public = "the names of the sites and their numbers of rows are" if apart else "the number of records is"
        bill = Bill(
            method=planned.name,
            events=planned.events,
            sizes=sizes,
            digest=digest(array for part in parts for array in part),
            assumptions=(
                f"one record replaced by another{' of the same site' if apart else ''}; {public} public",
                "values are clipped to the bounds, and rows are shortened to norm 1",
                *((f"at most {colluders} sites put together what they know",) if colluders is not None else ()),
            ),
            apart=apart,
            coalitions=planned.guarantee(float(self.delta)),
        )
        return self._spend(bill, lambda noise: fit_privately(planned, parts, noise), depth=5)

    def _predicted(self, X: Any) -> np.ndarray:
        """The model's prediction for each row without the loss's offset, (n, outputs)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(self._scaling.rows(X) @ self._weights.T)


class FederatedClassifier(ClassifierMixin, _Federated):
    """A linear classifier that several sites fit together, each with its own records: two classes, or several.

    With `epsilon`, the whole fit is (epsilon, delta)-differentially private for every record, against everybody else
    together (with `colluders`, against so many of the sites); without, the sites exchange exact values until they
    agree, and nothing is private. All of them are simulated in this process: for sites on a network see
    `tacit federation`.

    All parameters are public: choose them without looking at the records.

    epsilon, delta : the total of a fit; None for an exact one
    method : the algorithm by its name on the command line; "auto" for the recommended one; or a whole run as data
        (`tacit.run.spec.RunSpec`), with the same epsilon and delta
    colluders : None, and every site adds all of its noise. A number, and the sites share the noise, for a better
        model; the guarantee holds against any so many sites together, and `privacy_` says what holds against more. A
        site that adds no noise counts as one of them.
    dropouts : with `colluders`, how many sites may be away besides
    graph : which sites talk to each other: "auto" for what suits their number, "ring", "star", "path", "complete",
        "random:EDGES", or a `tacit.Graph` whose agents are the sites in the order of their names
    bounds : public bounds of the features: (lo, hi) for all, a pair for each, or a dict by the names of the columns.
        Values are clipped to them, and rows are shortened to norm 1. A private fit needs them. Without them, features
        are scaled by their means and deviations, which is not private. For text, or cells that are missing, put a
        `SchemaEncoder` in front: then they are (0, 1).
    classes : the labels. A private fit needs them; otherwise they are taken from y.
    class_weight : a dict from class to weight, or "balanced", which takes the shares of the classes: a private fit from
        `positive_share`, an exact one from y. The largest weight multiplies the noise. `predict` takes weights into
        account; `predict_proba` gives the probabilities of the records as they are.
    positive_share : the public share of `classes_[1]` among two classes, from which a private fit starts, for rare
        events; of several classes one share for each. "noisy" measures it, for a part of the budget.
    intercept : whether there is an intercept
    l2 : regularisation of an exact fit, l2/2 times the squared norm of the weights of scaled features (3e-5)
    allow_delta : a delta of one over the records or more is refused, unless this says why it is right
    ledger : a `tacit.privacy.ledger.Ledger`, or its file: a private fit pays from it before it starts, and is refused
        where the cap would be passed
    random_state : None for noise that protects. Anything else makes the fit repeatable, and *not private*.

    After `fit`: `classes_`, `coef_` (1, features) or (classes, features) and `intercept_` in the units of X (where rows
    are shortened, before that), `sites_` (the number of rows of each), `graph_`, `privacy_`, `history_` (rounds and
    messages; the loss of each round for exact fits), `spec_` (the run as data), `n_features_in_`, `feature_names_in_`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(6000, 3))
    >>> y = np.where(X @ [2.0, -1.0, 0.0] + 0.3 * rng.normal(size=6000) > 0, "yes", "no")
    >>> hospital = rng.choice(["alder", "birch", "cedar"], size=6000)
    >>> model = FederatedClassifier(epsilon=1.0, bounds=(-1, 1), classes=["no", "yes"]).fit(X, y, sites=hospital)
    >>> model.score(X, y) > 0.9, sum(model.sites_.values()), model.privacy_.epsilon <= 1.0
    (True, 6000, True)
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = 1e-5,
        *,
        method: str | RunSpec = "auto",
        colluders: int | None = None,
        dropouts: int = 0,
        graph: Any = "auto",
        bounds: Any = None,
        classes: Sequence[Any] | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        positive_share: Any = None,
        intercept: bool = True,
        l2: float | None = None,
        allow_delta: str | None = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.colluders = colluders
        self.dropouts = dropouts
        self.graph = graph
        self.bounds = bounds
        self.classes = classes
        self.class_weight = class_weight
        self.positive_share = positive_share
        self.intercept = intercept
        self.l2 = l2
        self.allow_delta = allow_delta
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.epsilon is not None  # with few records there is little to learn
        return tags

    def fit(self, X: Any, y: Any, sites: Any = None) -> FederatedClassifier:
        """Fits the model.

        sites : the name of the organisation that holds each row, (n,); without it one organisation holds them all
        """
        request = self._check("classes")
        known = None if self.classes is None else labels.known_classes(self.classes)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y) if known is None else known
        if len(self.classes_) < 2:
            raise ValueError("two classes are needed, y has one class only; give all of them as `classes`")
        label, count = self._label(y)
        fitted = self._fit(X, labels.targets(y, self.classes_), sites, label, _counting(request, count))
        self.coef_, self.intercept_ = self._scaling.in_units(self._weights)
        self.intercept_ = self.intercept_ + np.asarray(fitted.loss.offset)
        return self

    def _label(self, y: np.ndarray) -> tuple[Label, bool]:
        """What is public of the labels, and whether to count the positives with noise. An exact fit may look at y."""
        known, private = self.classes_, self.epsilon is not None
        count = isinstance(self.positive_share, str) and self.positive_share == NOISY
        if count and not private:
            raise InputError("positive_share='noisy' is paid for by a budget: give epsilon, or the share as a number")
        if count and len(known) != 2:
            raise InputError(f"positive_share='noisy' counts one of two classes; there are {len(known)}")
        shares = None if count else labels.public_shares(self.positive_share, known)
        observed = shares if private else tuple(np.mean(y == name) for name in known)
        return labels.label_of(known, shares, labels.class_weights(self.class_weight, known, observed)), count

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each row, (n,), positive for `classes_[1]`; of several classes one of each, (n, classes)."""
        scores = self._predicted(X) + np.asarray(self._loss.offset)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of `classes_`, (n, classes)."""
        z = self._predicted(X)
        if len(self.classes_) > 2:
            return np.asarray(self._loss.probability(z))
        positive = self._loss.probability(z[:, 0])
        assert positive is not None
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score for each row, (n,)."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])


class FederatedRegressor(RegressorMixin, _Federated):
    """A linear model of a number that several sites fit together, each with its own records.

    With `epsilon` it minimises the pseudo-Huber loss, whose slope is bounded; without, the squared loss. The parameters
    are those of `FederatedClassifier`, but for those of classes, and

    target_bounds : public bounds (lo, hi) of y. A private fit needs them. Targets and predictions are clipped to them.

    After `fit`: `coef_` (features,) and `intercept_` in the units of X and y, and the other attributes of
    `FederatedClassifier`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> model = FederatedRegressor().fit(X, 3 * X[:, 0] + 5, sites=np.arange(600) % 3)
    >>> model.coef_.round(2).tolist(), round(model.intercept_, 2)
    ([3.0, 0.0], 5.0)
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = 1e-5,
        *,
        method: str | RunSpec = "auto",
        colluders: int | None = None,
        dropouts: int = 0,
        graph: Any = "auto",
        bounds: Any = None,
        target_bounds: tuple[float, float] | None = None,
        intercept: bool = True,
        l2: float | None = None,
        allow_delta: str | None = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.colluders = colluders
        self.dropouts = dropouts
        self.graph = graph
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.intercept = intercept
        self.l2 = l2
        self.allow_delta = allow_delta
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.epsilon is not None
        return tags

    def fit(self, X: Any, y: Any, sites: Any = None) -> FederatedRegressor:
        """Fits the model.

        sites : the name of the organisation that holds each row, (n,); without it one organisation holds them all
        """
        request = self._check("target_bounds")
        limits = None if self.target_bounds is None else public_bounds(self.target_bounds, 1, None)[0]
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = y.astype(float)
        if limits is None:  # as near to [-1, 1] as the settings expect
            middle, half = (float(y.mean()) if self.intercept else 0.0), max(float(np.abs(y - y.mean()).max()), 1e-300)
        else:
            half = float(limits[1] - limits[0]) / 2
            middle = float(limits[0]) + half
            if not (half > 1e-300 and np.isfinite(half)):
                raise InputError(f"target_bounds must be finite and apart, not {self.target_bounds!r}")
            y = np.clip(y, *limits)
        self._fit(X, (y - middle) / half, sites, Target("y", bounds=(-1.0, 1.0)), request)
        self._target = middle, half, limits
        coefficients, intercepts = self._scaling.in_units(self._weights)
        self.coef_, self.intercept_ = half * coefficients[0], float(middle + half * intercepts[0])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted number of each row, (n,), in the units of y."""
        z = self._predicted(X)[:, 0]
        middle, half, limits = self._target
        return middle + half * z if limits is None else np.clip(middle + half * z, *limits)


def _sites(given: Any, X: np.ndarray) -> tuple[list[np.ndarray], list[str]]:
    """The rows of each site, and its name."""
    if given is None:
        return [np.arange(len(X))], ["all records"]
    names = column_or_1d(given, warn=False)
    check_consistent_length(X, names)
    if any(name is None or name != name for name in names.tolist()):
        raise InputError("sites names the organisation of every row; a name is missing")
    return partition.by_column(names)


def _counting(request: Request, count: bool) -> Request:
    if request.spec is None:
        return replace(request, count=count)
    if request.spec.count != count:
        raise InputError("the run says whether the positives are counted: give positive_share to fit")
    return request


def _graph(given: Any, sites: int, reserve: Reserve | None) -> Graph:
    if sites == 1 and not isinstance(given, Graph):
        return Graph.ring(1)
    if isinstance(given, str) and given == "auto":
        return auto_graph(sites, reserve)
    if isinstance(given, str):
        return Graph.named(given, sites)
    if not isinstance(given, Graph):
        raise InputError(f"graph is the name of one, such as 'ring', or a tacit.Graph, not {given!r}")
    if given.agents != sites:
        raise InputError(f"the graph has {given.agents} agents, and there are {sites} sites")
    return given
