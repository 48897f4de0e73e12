"""The scikit-learn classifier: it keeps scikit-learn's rules, it is DP-ADMM, and it says what it spends."""

import importlib
import math
import sys
from collections import Counter

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit.algorithms import DPADMM, AcceleratedDPADMM
from tacit.composite import (
    L1,
    Nothing,
    Term,
    clipped,
    graph_as_printed,
    graph_from_public_sample,
    private_graph,
    public_graph,
)
from tacit.estimators import PrivateFusedLogisticRegression, inverse_covariance_graph
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import Free, Gaussian
from tacit.run import composite_pace

D = 4
rng = np.random.default_rng(0)
X = rng.normal(size=(400, D)) * [0.3, 0.3, 0.5, 2.0]
Y = np.where(X @ [2.0, 2.0, -1.0, 0.0] + 0.3 > 0, "yes", "no")
LABELS = ["no", "yes"]  # public
RESTARTS = {False: {}, True: {"restart": False}}  # with noise there is none


def seeded(**settings):
    return PrivateFusedLogisticRegression(**{"random_state": 0, "rounds": 20} | settings)


def test_scikit_learn_takes_it_for_one_of_its_own():
    """All of its checks hold for repeatable fits. Two need libraries that scikit-learn itself does without."""
    results = check_estimator(seeded(rounds=None), on_skip=None, on_fail=None)
    assert len(results) > 40
    other = {r["check_name"]: r["status"] for r in results if r["status"] != "passed"}
    assert (
        other.items() <= {"check_array_api_input": "skipped", "check_classifier_data_not_an_array": "skipped"}.items()
    )


def test_noise_that_protects_is_not_repeatable_and_says_so():
    model = PrivateFusedLogisticRegression(classes=LABELS)
    assert model.__sklearn_tags__().non_deterministic
    one, other = (clone(model).fit(X, Y) for _ in range(2))
    assert one.privacy_.private
    assert np.all(one.coef_ != other.coef_)
    assert not seeded().__sklearn_tags__().non_deterministic
    repeated = [seeded(random_state=3).fit(X, Y).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*repeated)
    assert np.all(repeated[0] != seeded(random_state=4).fit(X, Y).coef_)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("accelerated", [False, True], ids=["plain", "accelerated"])
@pytest.mark.parametrize("intercept", [False, True], ids=["through zero", "intercept"])
def test_a_fit_is_a_run_of_the_method_on_clipped_rows(sparse, accelerated, intercept):
    settings = {"strength": 0.01, "sparsity": 0.5, "penalty": 0.2, "step": 3.0, "accelerated": accelerated}
    model = seeded(fit_intercept=intercept, graph=[(2, 0)], row_norm=0.8, **settings)
    model.fit(scipy.sparse.csr_matrix(X) if sparse else X, Y)
    rows = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True) / 0.8)
    rows = np.hstack([rows, np.full((400, 1), 0.24)]) if intercept else rows
    A = np.vstack([[[1, 0, -1, 0]], 0.5 * np.eye(D)])
    A = np.hstack([A, np.zeros((5, 1))]) if intercept else A  # the intercept is not penalised
    problem = tacit.Problem([(rows, np.where(Y == "yes", 1, -1))])
    (budget,) = model.privacy_.events
    method = (AcceleratedDPADMM if accelerated else DPADMM)(
        term=Term(A, L1(0.01)),
        penalty=0.2,
        step=3.0,
        row_norm=math.hypot(0.8, 0.24) if intercept else 0.8,
        budget=budget,
    )
    noise = tacit.SeededNoise(int(np.random.RandomState(0).randint(2**31)))
    expected = tacit.simulate(method, problem, tacit.Graph.ring(1), rounds=20, noise=noise).model
    np.testing.assert_allclose(model.coef_, expected[None, :D], atol=1e-12)
    np.testing.assert_allclose(model.intercept_, 0.24 * expected[D:] if intercept else [0.0], atol=1e-12)
    scores = rows @ expected
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-scores)), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))


@pytest.mark.parametrize("graph", ["path", None, "private"])
def test_what_was_spent_is_what_was_asked_for(graph):
    settings = {"epsilon": 0.5, "delta": 1e-4, "rounds": 8, "graph": graph, "graph_share": 0.3, "classes": LABELS}
    model = PrivateFusedLogisticRegression(**settings).fit(X, Y)
    spent = {event: n for event, n in model.privacy_.events.items() if not isinstance(event, Free)}
    assert sum(spent.values()) == (9 if graph == "private" else 8) == model.n_iter_ + (graph == "private")
    assert all(isinstance(event, Gaussian) for event in spent)
    assert 0.4999 < epsilon(Counter(spent), 1e-4) <= 0.5
    assert model.privacy_.epsilon == model.privacy_.totals.best == epsilon(Counter(spent), 1e-4)
    assert model.privacy_.private
    assert model.privacy_.statement == (
        "(0.5, 0.0001)-differentially private, one record replaced by another, if the features were made without "
        "looking at these records, and all parameters were chosen so; it covers this fit alone: no ledger has counted "
        "it"
    )
    if graph == "private":
        once = [event for event, n in spent.items() if n == 1]
        assert [model.feature_graph_.cost] == once
        assert 0.1499 < epsilon(Counter(once), 1e-4) <= 0.15


def test_a_fit_says_what_it_relies_on():
    told = seeded().fit(X, Y).privacy_
    assert not told.private
    assert told.statement.startswith("not private: the noise was seeded; with fresh noise it is (1, 1e-05)-")
    assert any("random_state" in text for text in told.assumptions)
    assert any("taken from y" in text for text in told.assumptions)
    quiet = PrivateFusedLogisticRegression(classes=["no", "yes"]).fit(X, Y).privacy_
    assert not any("random_state" in text or "taken from y" in text for text in quiet.assumptions)
    with pytest.warns(UserWarning, match="not small beside one over 400 rows"):
        seeded(delta=0.002).fit(X, Y)
    with pytest.raises(tacit.InputError, match=r"delta = 0.01 is not below one over 400 rows"):
        seeded(delta=0.01).fit(X, Y)
    with pytest.warns(UserWarning, match="not small beside one over 400 rows"):
        seeded(delta=0.01, allow_delta="a test").fit(X, Y)


def test_long_rows_count_no_more_than_the_clip():
    one = seeded(fit_intercept=False).fit(10 * X, Y)
    other = seeded(fit_intercept=False).fit(1e6 * X, Y)
    lengths = np.linalg.norm(10 * X, axis=1)
    assert lengths.min() > 1
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-12)


def test_any_two_labels_and_classes_that_are_public():
    expected = seeded().fit(X, Y)
    for labels in ((False, True), (3, 7), (-0.0, 1.0), ("a", "b")):
        named = np.array(labels)[(Y == "yes").astype(int)]
        model = seeded(classes=labels[::-1]).fit(X, named)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.classes_, labels)
        np.testing.assert_array_equal(model.predict(X) == labels[1], expected.predict(X) == "yes")
    alike = seeded(classes=["no", "yes"]).fit(X, np.full(400, "no"))  # the labels in y are private
    assert alike.intercept_[0] < 0
    with pytest.raises(tacit.InputError, match="not one of the classes"):
        seeded(classes=["no", "perhaps"]).fit(X, Y)


def test_graphs_in_every_form():
    W = np.zeros((D, D))
    W[0, 1] = W[1, 0] = W[1, 2] = W[2, 1] = W[2, 3] = W[3, 2] = 1
    forms = ["path", [(1, 0), (1, 2), (3, 2), (0, 1)], W, scipy.sparse.csr_array(W), public_graph(W)]
    fits = [seeded(graph=form, strength=0.05).fit(X, Y).coef_ for form in forms]
    for other in fits[1:]:
        np.testing.assert_array_equal(other, fits[0])
    assert np.all(fits[0] != seeded(graph=None, strength=0.05).fit(X, Y).coef_)
    for graph in (graph_from_public_sample(X, 0.5), inverse_covariance_graph(X, 0.1)):
        assert seeded(graph=graph).fit(X, Y).feature_graph_ is graph
    tacit_rows = tacit.Problem([(clipped(X, 1.0), np.ones(400))])
    learnt = private_graph(tacit_rows, tacit.SeededNoise(0), Gaussian(50.0), 0.3)
    model = seeded(graph=learnt).fit(X, Y)
    assert model.privacy_.events[Gaussian(50.0)] == 1
    assert model.privacy_.epsilon <= 1


def test_it_learns():
    many = np.random.default_rng(1).normal(size=(6000, D)) / 2
    labels = many @ [2.0, 2.0, -2.0, 0.0] + 0.3 > 0
    model = seeded(rounds=100, epsilon=1.0).fit(many[:4000], labels[:4000])
    assert model.score(many[4000:], labels[4000:]) > 0.9
    assert np.sign(model.coef_[0, :3]).tolist() == [1, 1, -1]
    hidden = seeded(rounds=100, epsilon=1e-4).fit(many[:4000], labels[:4000])
    assert hidden.score(many[4000:], labels[4000:]) < 0.9


# The defaults


@pytest.fixture(scope="module")
def census():
    """A quarter of Adult to train on, and the rest to test."""
    train, test = tacit.data.adult().split(train=11_000, seed=0)
    return train.X, train.y, test.X, test.y


def errors(census, **settings):
    rows, labels, test, expected = census
    models = [seeded(rounds=None, random_state=seed, **settings).fit(rows, labels) for seed in range(2)]
    return np.mean([1 - model.score(test, expected) for model in models])


def test_the_defaults_fit_and_a_private_graph_is_no_worse(census):
    """`benchmarks/fused_lasso.py` does it with all rows. The majority's error is 0.248, the exact model's 0.156."""
    found = {graph: errors(census, graph=graph) for graph in ("path", None, "private")}
    assert found["path"] < 0.17
    assert found["private"] < found[None] + 0.005


def test_without_noise_the_defaults_are_those_of_scikit_learn(census):
    """lambda is then 1/n, which is C = 1: the rounds are enough to get there."""
    rows, labels, test, expected = census
    exact = LogisticRegression().fit(rows, labels)
    with pytest.warns(UserWarning, match="protects nobody"):
        found = errors(census, epsilon=1e3)
    assert found < 1 - exact.score(test, expected) + 0.003


def test_rounds_that_stop_short_give_a_warning_that_no_record_changes(census):
    rows, labels, *_ = census
    wanted = seeded(rounds=None).fit(rows, labels).n_iter_
    heard = []
    for records in ((rows, labels), (0 * rows, np.where(np.arange(len(labels)) < 5, 1, -1))):
        with pytest.warns(UserWarning, match="30 rounds stop short") as caught:
            seeded(rounds=30).fit(*records)
        heard.append([str(w.message) for w in caught])
    assert heard[0] == heard[1]
    assert f": {wanted} rounds are enough;" in heard[0][0]
    with pytest.warns(UserWarning, match="fewer with accelerated=True"):
        seeded(rounds=wanted, accelerated=False).fit(rows, labels)
    seeded(rounds=2 * wanted).fit(rows, labels)  # no warning, and shorter steps


@pytest.mark.parametrize("accelerated", [False, True], ids=["plain", "accelerated"])
@pytest.mark.parametrize("average", [False, True], ids=["last", "mean"])
def test_the_rounds_move_the_model_by_the_gradient_over_lambda(accelerated, average):
    """Records that all say the same have a nearly constant gradient while the model is small."""
    stop, tiny = 0.01, 1e-6
    problem = tacit.Problem([(np.full((10, 1), tiny), np.ones(10))])
    for rounds in (None, 300):
        pace = composite_pace.pace(stop, 4.0, rounds=rounds, accelerated=accelerated, average=average)
        method = (AcceleratedDPADMM if accelerated else DPADMM)(
            term=Term([[1.0]], Nothing()), step=pace.step, penalty=1e-9, average=average, **RESTARTS[accelerated]
        )
        moved = tacit.simulate(method, problem, tacit.Graph.ring(1), rounds=pace.rounds).model
        assert moved == pytest.approx(tiny / 2 / stop, rel=1e-6)
        assert pace.step <= 4.0
        assert pace.warning is None


def test_other_units_change_nothing():
    one = seeded(rounds=None).fit(X, Y)
    other = seeded(rounds=None, row_norm=8.0).fit(8 * X, Y)
    assert one.n_iter_ == other.n_iter_
    np.testing.assert_allclose(8 * other.coef_, one.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=1e-6)


def test_labels_that_are_read_from_the_records_are_not_published():
    rare = np.where(np.arange(400) == 7, "the one who has it", "no")
    with pytest.raises(tacit.InputError, match="needs both labels as `classes`"):
        PrivateFusedLogisticRegression().fit(X, rare)


def test_parameters_set_after_a_fit_change_nothing_before_the_next():
    model = seeded(epsilon=1.0).fit(X, Y)
    scores, told = model.decision_function(X), model.privacy_.statement
    model.set_params(epsilon=3.0, row_norm=0.1, fit_intercept=False)
    np.testing.assert_array_equal(model.decision_function(X), scores)
    assert model.privacy_.statement == told
    assert "with fresh noise it is (3, 1e-05)-" in model.fit(X, Y).privacy_.statement
    assert not np.allclose(model.decision_function(X), scores)


def test_it_works_where_scikit_learn_looks_for_parameters():
    search = GridSearchCV(seeded(), {"strength": [1e-4, 1e-1]}, cv=2).fit(X, Y)
    assert search.best_params_["strength"] in (1e-4, 1e-1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.0}, "delta must lie between 0 and 1"),
        ({"delta": 1.0}, "delta must lie between 0 and 1"),
        ({"delta": "small"}, "delta must lie between 0 and 1"),
        ({"row_norm": -1.0}, "row_norm"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"penalty": 0.0}, "penalty"),
        ({"step": 0.0}, "step"),
        ({"strength": -1.0}, "strength"),
        ({"sparsity": -1.0}, "sparsity"),
        ({"graph": "ring"}, "graph is"),
        ({"graph": [(0, 9)]}, "from 0 to 3"),
        ({"graph": [(1, 1)]}, "two different features"),
        ({"graph": ["ab"]}, "pairs of features"),
        ({"graph": np.zeros((3, 3))}, "for 3 features, X has 4"),
        ({"graph": np.zeros((4, 4)), "sparsity": 0.0}, "the penalty would be zero"),
        ({"graph": "private", "graph_share": 1.0}, "graph_share"),
        ({"graph": "private", "threshold": 2.0}, "threshold"),
        ({"graph": "private", "epsilon": 0.1}, "hides every correlation of 400 rows with 4 features"),
        ({"step": 1e-12, "rounds": None}, "would take more than 1,000,000 rounds"),
        ({"classes": ["no"]}, "two different labels"),
        ({"classes": [None, 1]}, "two labels of the same type"),
        ({"row_norm": 1e300}, "row_norm is squared"),
        ({"row_norm": 1e-300}, "row_norm is squared"),
        ({"graph": [(0, 1, 2), (1, 2, 3)]}, "pairs of features"),
        ({"graph": [0, 1, 2, 3]}, "pairs of features"),
        ({"graph": [[0, 1, 0], [1, 0, 1], [0, 1, 0]]}, "pairs of features"),
        ({"graph": None, "sparsity": 0.0}, "the penalty would be zero"),
        ({"graph": "private", "sparsity": 0.0}, "without edges"),
        ({"graph": "private", "penalty": 1.0, "rounds": None}, "with a penalty give rounds, too"),
        ({"ledger": "x"}, "leave out one of them"),
        (
            {"graph": graph_as_printed(tacit.Problem([(clipped(X, 1.0), np.ones(400))]), 0.3, as_printed=True)},
            "no positive parameter keeps the total",
        ),
    ],
)
def test_bad_parameters_are_refused_in_one_line(settings, message):
    with pytest.raises(tacit.InputError, match=message) as error:
        seeded(**settings).fit(X, Y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("features", [2, 4])
def test_a_nested_list_is_the_matrix_that_it_spells(features):
    W = 0.5 * (np.eye(features, k=1) + np.eye(features, k=-1))
    model = seeded(graph=W.tolist()).fit(X[:, :features], Y)
    np.testing.assert_array_equal(model.feature_graph_.W.toarray(), W)
    pairs = seeded(graph=[(1, 0), (0, 1)]).fit(X[:, :features], Y)
    assert pairs.feature_graph_.edges().tolist() == [[0, 1]]


def test_a_sample_without_variance_has_no_graph():
    with pytest.raises(tacit.InputError, match="a feature of the sample is constant"):
        inverse_covariance_graph(0 * X, alpha=1.0)


def test_a_graph_whose_noise_could_be_drawn_again_does_not_go_with_noise_that_protects():
    rows = tacit.Problem([(clipped(X, 1.0), np.ones(400))])
    graph = private_graph(rows, tacit.SeededNoise(0), Gaussian(50.0), 0.3)
    with pytest.raises(tacit.InputError, match="does not protect"):
        PrivateFusedLogisticRegression(graph=graph, classes=LABELS).fit(X, Y)


def test_without_scikit_learn_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "tacit.estimators")
    with pytest.raises(ImportError, match=r"^tacit.estimators needs scikit-learn .* 'tacit-learn\[sklearn\]'$"):
        importlib.import_module("tacit.estimators")
