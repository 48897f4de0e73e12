"""The federated estimators: one model of several sites, exactly what a pool would give, or private and paid for."""

import pickle
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit.estimators import FederatedClassifier, FederatedRegressor
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import Free, Gaussian, ObjectiveGaussian, Pure
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.share import share_event
from tacit.run.spending import worst

rng = np.random.default_rng(0)
N, D = 900, 3
X = rng.uniform(-1, 1, size=(N, D)) * [1.0, 100.0, 0.01] + [0.0, 50.0, 0.0]
Z = (X - [0.0, 50.0, 0.0]) @ [3.0, -0.02, 0.0] + 0.5 * rng.logistic(size=N)
Y = np.where(Z > 0.3, "yes", "no")
SITES = np.array(["cedar", "alder", "birch"])[np.minimum(np.arange(N) % 4, 2)]
BOUNDS = [(-1, 1), (-50, 150), (-0.01, 0.01)]
PRIVATE = {"epsilon": 1.0, "bounds": BOUNDS, "classes": ["no", "yes"]}
QUICK = PRIVATE | {"method": "one-shot"}  # one solve each: the quickest


@pytest.mark.parametrize(
    "model",
    [
        FederatedClassifier(),
        FederatedRegressor(),
        FederatedRegressor(1.0, bounds=(-10, 10), target_bounds=(-100, 100), method="one-shot", random_state=0),
    ],
    ids=["classifier", "regressor", "private regressor"],
)
def test_scikit_learn_takes_it_for_one_of_its_own(model):
    """All checks hold. One needs a setting of scipy."""
    results = check_estimator(model, on_skip=None, on_fail=None)
    assert len(results) > 40
    other = {r["check_name"]: r["status"] for r in results if r["status"] != "passed"}
    assert other.items() <= {"check_array_api_input": "skipped"}.items()


@pytest.mark.parametrize("graph", ["ring", "star", "random:3", tacit.Graph.path(3)], ids=str)
def test_sites_find_the_maximum_of_the_likelihood_of_all_records(graph):
    model = FederatedClassifier(graph=graph, l2=1e-9).fit(X, Y, sites=SITES)
    expected = LogisticRegression(C=np.inf, solver="newton-cg", tol=1e-8).fit((X - X.mean(0)) / X.std(0), Y)
    np.testing.assert_allclose(model.coef_ * X.std(0), expected.coef_, atol=1e-3)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba((X - X.mean(0)) / X.std(0)), atol=1e-3)
    assert model.sites_ == {"alder": 225, "birch": 450, "cedar": 225}
    assert not model.privacy_.private
    assert model.privacy_.statement.startswith("not private: no noise")
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert model.history_["messages"][-1] == 2 * len(model.graph_.edges) * model.history_["round"][-1]


def test_a_fit_without_noise_has_no_finite_epsilon():
    """What says so in words is for people; this is what a program reads."""
    privacy = FederatedClassifier().fit(X, Y, sites=SITES).privacy_
    assert not privacy.private
    assert privacy.epsilon == np.inf
    assert privacy.totals.best == np.inf
    private = FederatedClassifier(**QUICK, random_state=0).fit(X, Y).privacy_
    assert private.epsilon == private.totals.best <= 1.0


@pytest.mark.parametrize("method", ["auto", "coca", "i-admm", "w-admm"])
def test_exact_methods_by_their_names(method):
    pool, model = (FederatedRegressor(method=name) for name in ("auto", method))
    pool.fit(X, Z)
    model.fit(X, Z, sites=SITES)
    np.testing.assert_allclose(model.coef_ * X.std(0), pool.coef_ * X.std(0), atol=1e-3)
    assert pool.history_["messages"].tolist() == [0]


def test_several_classes_and_numbers_are_what_other_packages_find():
    thirds = np.digitize(Z, [-0.5, 0.8])
    u = (X - X.mean(0)) / X.std(0)
    model = FederatedClassifier(l2=1e-9).fit(X, thirds, sites=SITES)
    expected = LogisticRegression(C=np.inf, solver="newton-cg", tol=1e-8).fit(u, thirds)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(u), atol=1e-3)
    assert model.coef_.shape == (3, D)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))
    line = FederatedRegressor(l2=1e-9).fit(X, Z, sites=SITES)
    least_squares = LinearRegression().fit(X, Z)
    np.testing.assert_allclose(line.coef_ * X.std(0), least_squares.coef_ * X.std(0), atol=1e-4)
    np.testing.assert_allclose(line.predict(X), X @ line.coef_ + line.intercept_, atol=1e-9)
    flat = FederatedRegressor(l2=1e-9, intercept=False).fit(X, Z)
    np.testing.assert_allclose(flat.predict(X), LinearRegression(fit_intercept=False).fit(X, Z).predict(X), atol=1e-4)
    assert flat.intercept_ == 0


@pytest.mark.parametrize("method", ["mr-admm", "gradient-descent"])
def test_a_private_fit_is_a_run_of_the_recipe_on_scaled_rows(method):
    model = FederatedClassifier(**PRIVATE, method=method, graph="star", random_state=3).fit(X, Y, sites=SITES)
    u = np.hstack([X / [1.0, 150.0, 0.01], np.ones((N, 1))])
    u /= np.maximum(1, np.linalg.norm(u, axis=1, keepdims=True))
    masks = [np.equal(SITES, name) for name in ("alder", "birch", "cedar")]
    parts = [(u[mine], np.where(Y[mine] == "yes", 1, -1)) for mine in masks]
    graph = tacit.Graph.star(3)
    setting = RECIPES[method].setting([225, 450, 225], D + 1, graph, Budget(1.0, 1e-5))
    facts = setting.facts
    problem = tacit.Problem(parts, loss=facts.loss, scale=facts.scale, l2=facts.l2, radius=facts.radius)
    noise = tacit.SeededNoise(int(np.random.RandomState(3).randint(2**31)))
    run = tacit.simulate(setting.algorithm, problem, graph, rounds=setting.rounds, noise=noise)
    np.testing.assert_allclose(model.decision_function(X), u @ run.model, atol=1e-9)
    np.testing.assert_allclose(model.coef_[0], run.model[:D] / [1.0, 150.0, 0.01], rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, run.model[D:], atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], facts.loss.probability(u @ run.model), atol=1e-9)
    for spent in run.spent:  # nobody spends more than what was charged
        assert epsilon(spent, 1e-5) <= model.privacy_.epsilon <= 1
    assert model.privacy_.epsilon > 0.99
    assert set(model.history_) == {"round", "messages"}


def test_noise_protects_unless_it_is_seeded():
    one, other = (FederatedClassifier(**QUICK).fit(X, Y, sites=SITES) for _ in range(2))
    assert one.privacy_.private
    assert one.__sklearn_tags__().non_deterministic
    assert "of the same site" in one.privacy_.statement
    again, repeated = (FederatedClassifier(**QUICK, random_state=1).fit(X, Y, sites=SITES) for _ in range(2))
    np.testing.assert_array_equal(again.coef_, repeated.coef_)
    assert not again.privacy_.private
    assert again.privacy_.statement.startswith("not private: the noise was seeded")
    assert not again.__sklearn_tags__().non_deterministic
    assert np.all(one.coef_ != other.coef_)


def test_the_units_of_a_column_change_its_weight_and_nothing_else():
    units = np.array([1000.0, 0.1, 7.0])
    for settings in ({}, QUICK | {"random_state": 0}):
        one = FederatedClassifier(**settings).fit(X, Y, sites=SITES)
        other = FederatedClassifier(**settings)
        if settings:
            other.set_params(bounds=np.array(BOUNDS) * units[:, None])
        other.fit(X * units, Y, sites=SITES)
        np.testing.assert_allclose(other.coef_ * units, one.coef_, rtol=1e-6)
        np.testing.assert_allclose(other.decision_function(X * units), one.decision_function(X), rtol=1e-6)


def test_a_value_outside_the_bounds_counts_as_the_bound():
    far = X.copy()
    far[::3, 1] = 1e6
    model, at_most = (FederatedClassifier(**QUICK, random_state=0) for _ in range(2))
    model.fit(far, Y)
    at_most.fit(np.clip(far, -1e9, [np.inf, 150.0, np.inf]), Y)
    np.testing.assert_array_equal(model.coef_, at_most.coef_)
    np.testing.assert_array_equal(model.decision_function(far), at_most.decision_function(np.minimum(far, 150.0)))


def test_columns_far_from_zero_are_centred_where_there_is_an_intercept():
    warm = X + np.array([0, 500, 0])
    moved = BOUNDS[0], (450, 650), BOUNDS[2]
    model = FederatedClassifier(**QUICK | {"bounds": moved}, random_state=0).fit(warm, Y)
    assert model.score(warm, Y) > 0.8
    through_zero = FederatedClassifier(**QUICK | {"bounds": moved}, intercept=False, random_state=0).fit(warm, Y)
    assert through_zero.intercept_[0] == 0


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_frames_and_bounds_in_every_form(frames):
    library = pytest.importorskip(frames)
    frame = library.DataFrame({"age": X[:, 0], "dose": X[:, 1], "rate": X[:, 2]})
    if not hasattr(StandardScaler().fit(frame), "feature_names_in_"):
        pytest.skip("a scikit-learn that does not know the columns of such a frame")
    by_name = {"rate": BOUNDS[2], "age": BOUNDS[0], "dose": BOUNDS[1]}
    expected = FederatedClassifier(**QUICK, random_state=0).fit(X, Y, sites=SITES)
    for bounds in (by_name, np.array(BOUNDS)):
        model = FederatedClassifier(**QUICK | {"bounds": bounds}, random_state=0).fit(frame, Y, sites=list(SITES))
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)  # a frame's columns lie apart in memory
        assert model.feature_names_in_.tolist() == ["age", "dose", "rate"]
    np.testing.assert_array_equal(model.predict(frame), expected.predict(X))
    for named, message in (({"age": (0, 1)}, "'dose' has none"), (by_name | {"sex": (0, 1)}, "'sex' is not a column")):
        with pytest.raises(tacit.InputError, match=message):
            FederatedClassifier(bounds=named).fit(frame, Y)


def rare(n=6000):
    """6% positives, at three sites."""
    maker = np.random.default_rng(5)
    rows = maker.normal(size=(n, 6))
    z = rows @ [1.0, -0.8, 0.6, 0.4, 0.0, 0.0] + maker.logistic(size=n)
    return rows, (z > np.quantile(z, 0.94)).astype(int), np.arange(n) % 3


@pytest.mark.parametrize("share", [0.06, "noisy"])
def test_rare_events_are_ranked_and_have_probabilities(share):
    rows, y, sites = rare()
    settings = {"bounds": (-4, 4), "classes": [0, 1], "positive_share": share, "method": "mr-admm"}
    model = FederatedClassifier(1.0, **settings, random_state=0)
    model.fit(rows[:5000], y[:5000], sites=sites[:5000])
    exact = FederatedClassifier().fit(rows[:5000], y[:5000])
    found, best = (roc_auc_score(y[5000:], m.predict_proba(rows[5000:])[:, 1]) for m in (model, exact))
    assert found - 0.5 > 0.8 * (best - 0.5)
    assert 0.03 < model.predict_proba(rows[5000:])[:, 1].mean() < 0.12
    assert model.privacy_.epsilon <= 1
    paid = model.privacy_.events[share_event(1.0, 1e-5)]
    assert paid == (1 if share == "noisy" else 0)


def test_class_weights():
    rows, y, _ = rare()
    plain, balanced = FederatedClassifier().fit(rows, y), FederatedClassifier(class_weight="balanced").fit(rows, y)
    share = float(y.mean())
    by_hand = FederatedClassifier(class_weight={0: 0.5 / (1 - share), 1: 0.5 / share}).fit(rows, y)
    np.testing.assert_allclose(by_hand.coef_, balanced.coef_, rtol=1e-9)
    reference = LogisticRegression(C=np.inf, solver="newton-cg", class_weight="balanced", tol=1e-8).fit(rows, y)
    np.testing.assert_allclose(balanced.coef_, reference.coef_, rtol=0.02)
    assert plain.predict(rows).mean() < 0.05
    assert balanced.predict(rows).mean() > 0.15
    assert abs(balanced.predict_proba(rows)[:, 1].mean() - share) < 0.02  # of the records as they are
    heavy = {"class_weight": "balanced", "positive_share": 0.06, "bounds": (-4, 4), "classes": [0, 1]}
    private = FederatedClassifier(2.0, **heavy, random_state=0).fit(rows, y)
    assert private.predict(rows).mean() > 0.15
    thirds = np.digitize(rows[:, 0], [-1.5, 1.5])
    even = FederatedClassifier(class_weight="balanced").fit(rows, thirds)
    expected = LogisticRegression(C=1 / (3e-5 * 7 * 6000), solver="newton-cg", class_weight="balanced").fit(
        rows, thirds
    )
    assert np.mean(even.predict(rows) == expected.predict(rows)) > 0.99


def test_private_classes_and_numbers_learn_and_do_not_look_at_the_labels():
    rows = np.random.default_rng(2).uniform(-1, 1, size=(4000, 2))
    z = rows @ [1.0, -1.0]
    several = FederatedClassifier(
        1.0, bounds=(-1, 1), classes=["a", "b", "c"], positive_share=[0.25, 0.5, 0.25], random_state=0
    )
    y = np.array(["a", "b", "c"])[np.digitize(z, [-0.4, 0.4])]
    assert several.fit(rows, y, sites=np.arange(4000) % 2).score(rows, y) > 0.75
    assert several.predict_proba(rows).shape == (4000, 3)
    number = FederatedRegressor(1.0, bounds=(-1, 1), target_bounds=(80, 120), random_state=0)
    assert number.fit(rows, 100 + 15 * z, sites=np.arange(4000) % 2).score(rows, 100 + 15 * z) > 0.8
    far = number.predict(1000 * rows)
    assert far.min() >= 80
    assert far.max() <= 120
    alike = FederatedClassifier(**QUICK, random_state=0).fit(X, np.full(N, "no"))
    assert alike.classes_.tolist() == ["no", "yes"]
    assert np.all(alike.predict(X) == "no")


def test_the_weights_of_a_private_fit_come_from_public_shares():
    """The fit is planned in the same way whatever the labels are."""
    rows, y, _ = rare()
    heavy = {"class_weight": "balanced", "positive_share": 0.06, "bounds": (-4, 4), "classes": [0, 1]}
    plans = [
        FederatedClassifier(2.0, **heavy, method="one-shot", random_state=0).fit(rows, labels).spec_
        for labels in (y, 1 - y)
    ]
    assert plans[0] == plans[1]


def test_the_worst_of_the_members_is_charged():
    free = Free("a mean")
    assert worst([[Gaussian(2.0), free], [Gaussian(1.0), free]]) == [Gaussian(1.0)]
    curved = [ObjectiveGaussian(2.0, 0.1), ObjectiveGaussian(3.0, 0.2)]
    assert worst([[event] for event in curved]) == [ObjectiveGaussian(2.0, 0.2)]
    assert worst([[Gaussian(1.0)], [Pure(0.1)]]) == [Gaussian(1.0), Pure(0.1)]  # no order: both
    assert worst([[Gaussian(1.0)], []]) == [Gaussian(1.0)]


@pytest.fixture
def ledger(tmp_path):
    from tacit.privacy.filters import epsilon as cost
    from tacit.privacy.ledger import Cap, Ledger

    with Ledger.new(tmp_path / "ward.ledger", population="ward", cost=cost) as made:
        made.set_cap(Cap(1.0, 1e-5))
        yield made


def test_a_ledger_pays_before_a_fit_and_refuses_what_it_cannot_pay(ledger, tmp_path):
    # A second fit depends on what the first has told: that costs more, and one-shot's curvature has no price then.
    model = FederatedClassifier(**PRIVATE | {"epsilon": 0.5, "method": "gradient-descent"}, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y, sites=SITES)
        assert ledger.spent() == model.privacy_.events
        assert ledger.told()  # what is spent from now on may depend on the model
        again = clone(model.set_params(ledger=str(ledger.path))).set_params(epsilon=0.2)
        again.fit(X, Y, sites=SITES)
    spent = ledger.spent()
    assert spent == model.privacy_.events + again.privacy_.events
    before = again.coef_.copy()
    from tacit.privacy.ledger import BudgetExceeded, LedgerError

    with pytest.raises(BudgetExceeded, match="cap"):
        again.set_params(epsilon=0.9).fit(X, Y, sites=SITES)
    assert ledger.spent() == spent
    np.testing.assert_array_equal(again.coef_, before)
    with pytest.raises(LedgerError, match="does not exist"):
        again.set_params(ledger=tmp_path / "none").fit(X, Y)


def test_a_copy_of_a_ledger_is_the_same_file(ledger):
    model = clone(FederatedClassifier(**QUICK, ledger=ledger))
    copied = pickle.loads(pickle.dumps(model)).ledger
    copied.reserve("a run", 0, Gaussian(20.0))
    assert ledger.spent() == model.ledger.spent() == Counter([Gaussian(20.0)])
    for other in (copied, model.ledger):
        other.close()


def test_a_fit_that_fails_has_paid(ledger, monkeypatch):
    def broken(*args, **settings):
        raise RuntimeError("the machine is on fire")

    monkeypatch.setattr("tacit.run.setting.simulate", broken)
    with pytest.raises(RuntimeError, match="on fire"):
        FederatedClassifier(**QUICK, ledger=ledger).fit(X, Y)
    assert ledger.spent()


def test_sites_are_routed_through_pipelines_and_searches():
    with sklearn.config_context(enable_metadata_routing=True):
        model = FederatedClassifier().set_fit_request(sites=True)
        found = cross_validate(model, X, Y, cv=3, params={"sites": SITES}, return_estimator=True)
        assert [sum(each.sites_.values()) for each in found["estimator"]] == [600] * 3
        assert all(set(each.sites_) == {"alder", "birch", "cedar"} for each in found["estimator"])
        assert found["test_score"].mean() > 0.8
        line = make_pipeline(FunctionTransformer(np.tanh), model).fit(X, Y, sites=SITES)
        assert len(line[-1].sites_) == 3
        search = GridSearchCV(model, {"l2": [1e-5, 10.0]}, cv=2).fit(X, Y, sites=SITES)
        assert search.best_params_ == {"l2": 1e-5}
        assert search.best_estimator_.sites_["birch"] == 450


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must lie between 0 and 1"),
        ({"epsilon": 1.0}, "needs bounds"),
        ({"epsilon": 1.0, "bounds": (0, 1)}, "needs classes"),
        (PRIVATE | {"method": "admm"}, "with epsilon, method is one of dvp"),
        (PRIVATE | {"method": "mr-admm"}, "growing penalty: it needs neighbours"),
        (PRIVATE | {"l2": 1.0}, "leave out l2"),
        (PRIVATE | {"classes": ["no"]}, "two or more different labels"),
        (PRIVATE | {"classes": ["no", "no"]}, "two or more different labels"),
        (PRIVATE | {"classes": [None, 1]}, "labels of the same type"),
        (PRIVATE | {"classes": ["no", "perhaps"]}, "y has a label that is not one of the classes"),
        (PRIVATE | {"classes": ["a", "b", "no", "yes"], "positive_share": "noisy"}, "counts one of two classes"),
        (PRIVATE | {"class_weight": "balanced"}, "needs public shares"),
        (PRIVATE | {"class_weight": "balanced", "positive_share": "noisy"}, "needs public shares"),
        (PRIVATE | {"bounds": (1, 0)}, "lo < hi"),
        (PRIVATE | {"bounds": [(0, 1)] * 2}, "one for each of 3 columns"),
        (PRIVATE | {"bounds": "wide"}, "bounds are a pair"),
        (PRIVATE | {"bounds": (0, np.inf)}, "finite distance"),
        (PRIVATE | {"bounds": {"a": (0, 1)}}, "columns with names"),
        (PRIVATE | {"positive_share": 1.5}, "positive_share lies between 0 and 1"),
        (PRIVATE | {"positive_share": "many"}, "positive_share lies between 0 and 1"),
        (PRIVATE | {"random_state": 0, "ledger": "x"}, "leave out one of them"),
        (PRIVATE | {"ledger": 7}, "ledger is a Ledger"),
        ({"ledger": "x"}, "a ledger pays for private fits"),
        ({"method": "mr-admm"}, "mr-admm is private: give epsilon"),
        ({"method": "magic"}, "without epsilon, method is one of admm"),
        ({"l2": -1.0}, "l2"),
        ({"positive_share": "noisy"}, "give epsilon, or the share as a number"),
        ({"class_weight": {"perhaps": 1.0}}, "'perhaps', which is not one of the classes"),
        ({"class_weight": {"no": 0.0}}, "positive number"),
        ({"class_weight": "heavy"}, "'balanced' or a dict"),
        ({"graph": tacit.Graph.ring(4)}, "4 agents, and there are 1 sites"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(settings, message):
    with pytest.raises(tacit.InputError, match=message) as error:
        FederatedClassifier(**settings).fit(X, Y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "sites", "error", "message"),
    [
        ({"graph": "cube"}, SITES, tacit.InputError, "graph must be one of ring"),
        ({"graph": 7}, SITES, tacit.InputError, "graph is the name of one"),
        ({}, SITES[:5], ValueError, "inconsistent numbers of samples"),
        ({}, np.array([None, *SITES[1:]], dtype=object), tacit.InputError, "a name is missing"),
        ({}, np.where(np.arange(N) == 3, np.nan, 1.0), tacit.InputError, "a name is missing"),
    ],
)
def test_bad_sites_and_graphs_are_refused(settings, sites, error, message):
    with pytest.raises(error, match=message):
        FederatedClassifier(**settings).fit(X, Y, sites=sites)


def test_a_regressor_needs_the_bounds_of_its_target():
    with pytest.raises(tacit.InputError, match="needs target_bounds"):
        FederatedRegressor(1.0, bounds=(-1, 1)).fit(X, Z)


def test_a_cost_that_was_not_planned_stops_the_fit(monkeypatch):
    from tacit.run import setting

    def cheaper(*args, **settings):
        run = tacit.simulate(*args, **settings)
        return replace(run, spent=[Counter() for _ in run.spent])

    monkeypatch.setattr(setting, "simulate", cheaper)
    with pytest.raises(tacit.TacitError, match="did not cost what was planned"):
        FederatedClassifier(**QUICK, random_state=0).fit(X, Y)
