"""Logistic regression with a graph-guided fused lasso, private, by DP-ADMM."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit.algorithms import DPADMM, AcceleratedDPADMM, hyper
from tacit.composite import (
    FeatureGraph,
    Term,
    clipped,
    graph_guided,
    lasso,
    private_graph,
    public_graph,
    require_visible,
)
from tacit.core.graph import Graph
from tacit.core.losses import Logistic
from tacit.core.problem import Problem
from tacit.errors import InputError, whole
from tacit.estimators.base import Bill, PrivateEstimator, digest
from tacit.estimators.feature_graphs import evened, from_list, from_pairs
from tacit.privacy.accounting import gaussian_steps
from tacit.privacy.events import Event, Free, Gaussian
from tacit.privacy.noise import Noise
from tacit.run import composite_pace
from tacit.run.spending import require_as_planned
from tacit.simulation.result import Run
from tacit.simulation.simulate import simulate

_ALONE, _LOSS = Graph.ring(1), Logistic()


class _Plan(NamedTuple):
    """A fit before any noise is drawn, from public facts alone."""

    stop: float  # lambda of `composite_pace`
    rounds: int
    budget: Gaussian  # what a round costs


class PrivateFusedLogisticRegression(ClassifierMixin, PrivateEstimator):
    """Logistic regression with a graph-guided fused lasso, (epsilon, delta)-private for every record: paper 001,

        min 1/n sum_i log(1 + exp(-y_i x_i.w)) + strength (sum over edges |w_j - s_jk w_k| + sparsity ||w||_1),

    by `DPADMM` or `AcceleratedDPADMM`. The fit releases noisy gradients only, with noise calibrated for the total.

    All parameters are public: choose them without looking at the records. The number of records is public, too. What is
    left None follows from it and from the budget (`tacit.run.composite_pace`).

    epsilon, delta : the total of a fit. A second fit on the same records costs as much again, and a search for
        parameters makes many: a ledger counts them. A search also chooses by scores that no noise protects, so search
        on public or made-up records.
    classes : the two labels, from public knowledge. Only a fit with a `random_state`, which is not private, can leave
        them out: it takes them from y.
    row_norm : rows longer than this are shortened to it; the rows of a prediction as well. Scale the features so that
        they have similar sizes and a row is about this long.
    fit_intercept : whether there is an intercept. It is not penalised.
    graph : which features belong together. "path": each feature and the next; pairs of features, [(0, 3), (1, 2)]; a
        symmetric matrix of weights; a `FeatureGraph`, for example from `tacit.composite.graph_from_public_sample` or
        `inverse_covariance_graph`; "private": estimated from the records with `graph_share` of epsilon; None.
    strength, sparsity : of the fused lasso, and of the lasso in it.
    rounds, penalty, step, accelerated, average : T, rho, eta/gamma, and the kind of `DPADMM`. If you give rounds, the
        step gets shorter where the longest one would take them too far, and too few rounds give a warning.
    graph_share, threshold : for the private graph, its share of epsilon and the correlation that makes an edge. Edges
        are those that noise cannot have made, lighter at features with many; if noise hides them all, it is refused.
    allow_delta : a delta of one over the records or more is refused, unless this says why it is right
    ledger : a `tacit.privacy.ledger.Ledger`, or its file: a fit pays from it before it starts, and is refused where the
        cap would be passed
    random_state : None for noise that protects. Anything else makes the fit repeatable, and *not private*.

    After `fit`: `coef_` (1, features), `intercept_` (1,), `classes_`, `privacy_`, `feature_graph_`, `n_iter_` (rounds),
    `row_norm_`, `n_features_in_`.
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
        strength: float | None = None,
        sparsity: float = 1.0,
        rounds: int | None = None,
        penalty: float | None = None,
        step: float | None = None,
        accelerated: bool = True,
        average: bool = False,
        graph_share: float = 0.2,
        threshold: float = 0.3,
        allow_delta: str | None = None,
        ledger: Any = None,
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
        self.allow_delta = allow_delta
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # with few records and a small epsilon there is little to learn
        return tags

    def fit(self, X: Any, y: Any) -> PrivateFusedLogisticRegression:
        """Fits the model; this spends (epsilon, delta) of the records."""
        self._check_budget()
        _checked(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        self.classes_, signs = self._signs(y)
        constant = composite_pace.INTERCEPT * self.row_norm if self.fit_intercept else 0.0
        rows, norm = clipped(X, self.row_norm), math.hypot(self.row_norm, constant)
        graph, cost = self._known_graph(*rows.shape)
        plan = self._planned(graph, cost, len(signs), norm)
        bill = Bill(
            method="dp-accadmm" if self.accelerated else "dp-admm",
            events=[*([cost] if cost.pure(1) else []), *[plan.budget] * plan.rounds],
            sizes=[len(signs)],
            digest=digest([rows, signs]),
            assumptions=(
                "one record replaced by another; the number of records is public",
                f"rows are shortened to norm {self.row_norm:g}",
                *(("the labels were taken from y, which reveals that both occur",) if self.classes is None else ()),
            ),
        )

        def fit(noise: Noise) -> tuple[tuple[Run, FeatureGraph | None], bytes]:
            own = self._learnt_graph(rows, signs, cost, noise) if _learns(self.graph) else graph
            algorithm = self._method(own, plan, norm)
            problem = Problem([(_with_constant(rows, constant), signs)], loss=_LOSS)
            ticks = algorithm.first + plan.rounds  # a private graph is paid for in a round of its own
            run = simulate(algorithm, problem, _ALONE, rounds=ticks, noise=noise, measure_every=ticks)
            require_as_planned(run.spent, [Counter(bill.events)])
            edges = own.W.toarray().tolist() if own is not None and _learns(self.graph) else None
            return (run, own), json.dumps({"weights": run.model.tolist(), "graph": edges}).encode()

        run, self.feature_graph_ = self._spend(bill, fit, depth=3)
        self.n_iter_, self.row_norm_ = plan.rounds, float(self.row_norm)
        self.coef_ = run.model[None, : self.n_features_in_]
        self.intercept_ = constant * run.model[self.n_features_in_ :] if constant else np.zeros(1)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """w.x + b of each row, (n,), shortened as in `fit`; positive for `classes_[1]`."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(clipped(X, self.row_norm_) @ self.coef_[0] + self.intercept_[0])

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
            if self.random_state is None:  # labels that are read from the records would be published
                raise InputError("a private fit needs both labels as `classes`, from public knowledge, such as [0, 1]")
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

    def _known_graph(self, n: int, d: int) -> tuple[FeatureGraph | None, Event]:
        """The graph, if it is known before the fit, and what it costs."""
        if _learns(self.graph):
            assert self.epsilon is not None
            budget = gaussian_steps(1, self.graph_share * self.epsilon, self.delta)
            require_visible(n, d, budget, self.threshold, row_norm=self.row_norm)
            return None, budget
        if self.graph is None or isinstance(self.graph, FeatureGraph):
            graph = self.graph
        elif isinstance(self.graph, str) and self.graph == "path":
            graph = from_pairs([(j, j + 1) for j in range(d - 1)], d)
        elif isinstance(self.graph, str):
            raise InputError(f'graph is "path", "private", pairs, a matrix, a FeatureGraph or None, not {self.graph!r}')
        elif isinstance(self.graph, list | tuple):
            graph = from_list(self.graph, d)
        else:
            graph = public_graph(self.graph)
        if graph is not None and graph.W.shape[0] != d:
            raise InputError(f"the graph is for {graph.W.shape[0]} features, X has {d}")
        if graph is not None and graph.seeded and self.random_state is None:  # before it is paid for
            raise InputError(
                "the graph was learnt with seeded noise, which does not protect: learn it with SecureNoise()"
            )
        return graph, Free("no graph") if graph is None else graph.cost

    def _learnt_graph(self, rows: Any, signs: np.ndarray, cost: Event, noise: Noise) -> FeatureGraph:
        records, budget = Problem([(rows, signs)]), cast(Gaussian, cost)  # of `_known_graph`
        return evened(private_graph(records, noise, budget, self.threshold, row_norm=self.row_norm))

    def _planned(self, graph: FeatureGraph | None, cost: Event, rows: int, norm: float) -> _Plan:
        """The rounds and what each costs. A graph that is learnt first does not change them: see `_penalty`."""
        stop = composite_pace.stopping(rows, self._steps(1, cost).multiplier, norm)
        term_norm = 1.0 if _learns(self.graph) else self._term(graph, stop / norm).norm
        pace = self._pace(stop, self._penalty(term_norm, norm)[1], self.rounds)
        if pace.warning is not None:
            warnings.warn(pace.warning, stacklevel=3)
        return _Plan(stop, pace.rounds, self._steps(pace.rounds, cost))

    def _method(self, graph: FeatureGraph | None, plan: _Plan, norm: float) -> DPADMM:
        term = self._term(graph, plan.stop / norm)
        penalty, longest = self._penalty(term.norm, norm)
        step, kind = self._pace(plan.stop, longest, plan.rounds).step, AcceleratedDPADMM if self.accelerated else DPADMM
        return kind(term=term, penalty=penalty, step=step, row_norm=norm, average=self.average, budget=plan.budget)

    def _steps(self, steps: int, cost: Event) -> Gaussian:
        """What one of so many steps may cost besides the graph."""
        assert self.epsilon is not None
        return gaussian_steps(steps, self.epsilon, self.delta, besides={cost: 1})

    def _penalty(self, term_norm: float, norm: float) -> tuple[float, float]:
        """rho and the longest step that is safe with it. The step is the same for every term, unless rho is given."""
        smooth = _LOSS.max_curvature * norm**2
        penalty = composite_pace.PENALTY * smooth / term_norm if self.penalty is None else self.penalty
        return penalty, 1 / (smooth + penalty * term_norm)

    def _pace(self, stop: float, longest: float, rounds: int | None) -> composite_pace.Pace:
        kind = {"accelerated": self.accelerated, "average": self.average}
        return composite_pace.pace(stop, longest, rounds=rounds, step=self.step, **kind)

    def _term(self, graph: FeatureGraph | None, scale: float) -> Term:
        """The fused lasso on the features, nothing on the intercept."""
        d = self.n_features_in_
        if (graph is None or graph.W.nnz == 0) and not self.sparsity:
            raise InputError(
                "the graph has no edges and sparsity is 0: the penalty would be zero; give edges or a sparsity"
            )
        strength = composite_pace.STRENGTH * scale if self.strength is None else self.strength
        if graph is None:
            term = lasso(d, strength * self.sparsity)
        else:
            term = graph_guided(graph, strength, sparsity=self.sparsity)
        if not self.fit_intercept:
            return term
        A = scipy.sparse.hstack([term.A, scipy.sparse.csr_array((term.rows, 1))], format="csr")
        return Term(A, term.g, cost=term.cost, seeded=term.seeded)


def _learns(graph: Any) -> bool:
    return isinstance(graph, str) and graph == "private"


def _checked(model: PrivateFusedLogisticRegression) -> None:
    """Checks the parameters, before anything reads the records."""
    for name in ("row_norm", "penalty", "strength", "step"):
        if getattr(model, name) is not None or name == "row_norm":
            hyper.number(name, getattr(model, name))
    if not 0 < float(model.row_norm) * float(model.row_norm) < np.inf:
        raise InputError(f"row_norm is squared, and {model.row_norm!r} is too large or too small for that")
    hyper.number("sparsity", model.sparsity, zero=True)
    if _learns(model.graph) and model.sparsity == 0:
        raise InputError("a private graph can turn out without edges: give a sparsity above 0")
    if _learns(model.graph) and model.penalty is not None and model.rounds is None:
        raise InputError("a fit is paid for before its private graph is known: with a penalty give rounds, too")
    for name in ("graph_share", "threshold"):
        value = getattr(model, name)
        if not (isinstance(value, int | float | np.number) and 0 < value < 1):
            raise InputError(f"{name} must lie between 0 and 1, not {value!r}")
    if model.rounds is not None:
        whole("rounds", model.rounds, 1)


def _with_constant(rows: Any, constant: float) -> Any:
    """The rows, with a constant for the intercept at their end, if there is one."""
    if not constant:
        return rows
    column = np.full((rows.shape[0], 1), constant)
    return (
        scipy.sparse.hstack([rows, column], format="csr") if scipy.sparse.issparse(rows) else np.hstack([rows, column])
    )
