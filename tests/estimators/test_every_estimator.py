"""What every private estimator keeps: it pays before it draws noise, and its statement says what it covers."""

import importlib
import inspect
import pickle
import pkgutil
import re
from collections import Counter

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import tacit.estimators
from tacit.composite import private_graph
from tacit.errors import InputError
from tacit.estimators import FederatedClassifier, FederatedRegressor, PrivateFusedLogisticRegression, SchemaEncoder
from tacit.estimators.base import PrivateEstimator
from tacit.privacy.events import Gaussian
from tacit.privacy.filters import epsilon as cost
from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(300, 3))
Z = X @ [2.0, -1.0, 0.0]
Y = np.where(Z + 0.1 * RNG.normal(size=300) > 0.5, "yes", "no")
TWO = {"classes": ["no", "yes"]}
# Every private estimator, with what it needs. A method whose events have a price after a release, too.
PRIVATE = {
    FederatedClassifier: {"bounds": (0, 1), "method": "gradient-descent", **TWO},
    FederatedRegressor: {"bounds": (0, 1), "method": "gradient-descent", "target_bounds": (-1, 2)},
    PrivateFusedLogisticRegression: {"rounds": 20, **TWO},
}
OTHER = {SchemaEncoder}  # they release nothing, and have tests of their own
CONDITION = "if the features were made without looking at these records"
ALONE = "it covers this fit alone: no ledger has counted it"

each = pytest.mark.parametrize("kind", PRIVATE, ids=lambda kind: kind.__name__)


def make(kind, epsilon=1.0, **settings):
    return kind(epsilon, 1e-5, **{**PRIVATE[kind], **settings})


def target(model):
    return Y if is_classifier(model) else Z


def fitted(kind, epsilon=1.0, **settings):
    model = make(kind, epsilon, **settings)
    return model.fit(X, target(model))


def covered(runs, cap):
    """What a statement says of a ledger."""
    counted = f"all runs that the ledger of 'ward' had counted when it paid, {runs} with this one"
    return f"it covers this fit; {counted}, keep its cap together: ({cap:g}, 1e-05)"


@pytest.fixture
def ledger(tmp_path):
    with Ledger.new(tmp_path / "ward.ledger", population="ward", cost=cost) as made:
        made.set_cap(Cap(50.0, 1e-5))
        yield made


class NoNoise:
    """Noise that cannot be drawn."""

    private, grid = True, 0.0

    def __getattr__(self, name):
        raise RuntimeError("noise was drawn")


def test_every_estimator_of_the_package_is_exported_and_under_a_contract():
    found = set()
    for module in pkgutil.iter_modules(tacit.estimators.__path__, "tacit.estimators."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, BaseEstimator) and kind.__module__.startswith("tacit.") and kind.__name__[0] != "_":
                found.add(kind)
    found.remove(PrivateEstimator)
    assert found == PRIVATE.keys() | OTHER
    assert {kind.__name__ for kind in found} <= set(tacit.estimators.__all__)
    for kind in found:
        assert issubclass(kind, PrivateEstimator) == hasattr(kind, "predict"), kind


@each
def test_it_has_the_parameters_of_a_budget_and_can_be_cloned(kind, ledger):
    model = make(kind, 0.7, ledger=str(ledger.path))
    assert {"epsilon", "delta", "ledger", "random_state"} <= model.get_params().keys()
    assert clone(model).get_params() == model.get_params()
    model.fit(X, target(model))
    assert not hasattr(clone(model), "privacy_")
    assert len(ledger.runs()) == 1


@each
def test_without_a_ledger_the_statement_covers_one_fit_and_names_its_condition(kind):
    model = fitted(kind)
    for _ in range(2):  # a second fit costs as much again, and this statement is not about it
        privacy = model.fit(X, target(model)).privacy_
        assert privacy.private
        assert privacy.counted is None
        assert privacy.statement.startswith("(1, 1e-05)-differentially private, one record replaced by another")
        assert re.findall(r"\(([\d.]+), 1e-05\)", privacy.statement) == ["1"]  # no total
        assert CONDITION in privacy.statement
        assert privacy.statement.endswith(ALONE)
        assert any("SchemaEncoder" in text for text in privacy.assumptions)


@each
def test_a_seeded_fit_is_not_private_and_no_ledger_pays_for_it(kind, ledger):
    statement = fitted(kind, random_state=0).privacy_.statement
    assert statement.startswith("not private: the noise was seeded; with fresh noise it is (1, 1e-05)-")
    assert CONDITION in statement
    with pytest.raises(InputError, match="leave out one of them"):
        fitted(kind, random_state=0, ledger=ledger)
    assert not ledger.spent()


@each
def test_a_ledger_pays_and_the_statement_says_what_it_had_counted(kind, ledger):
    spent = Counter()
    for runs, given in enumerate((ledger, str(ledger.path), ledger.path), start=1):
        privacy = fitted(kind, ledger=given).privacy_
        spent += privacy.events
        assert ledger.spent() == spent
        assert privacy.counted == ("ward", runs, Cap(50.0, 1e-5), None)
        assert CONDITION in privacy.statement
        assert privacy.statement.endswith(covered(runs, 50))
        assert ledger.told()  # what comes later may depend on this fit
    assert {run.title for run in ledger.runs()} == {kind.__name__}
    assert {entry["rows"] for entry in ledger.files()} == {300}


@each
def test_it_pays_before_it_draws(kind, ledger, monkeypatch):
    monkeypatch.setattr("tacit.estimators.base.SecureNoise", NoNoise)
    with pytest.raises(RuntimeError, match="noise was drawn"):
        fitted(kind, ledger=ledger)
    assert 0.99 < ledger.epsilon() <= 1


@each
def test_an_exhausted_ledger_refuses_before_anything_is_drawn_and_the_old_model_stays(kind, ledger, monkeypatch):
    model = fitted(kind, ledger=ledger)
    ledger.set_cap(Cap(1.01, 1e-5))
    monkeypatch.setattr("tacit.estimators.base.SecureNoise", NoNoise)
    before, predicted, spent = model.privacy_, model.predict(X), ledger.spent()
    with pytest.raises(BudgetExceeded, match=r"the cap is epsilon = 1\.01"):
        model.fit(X, target(model))
    assert model.privacy_ == before
    assert ledger.spent() == spent
    np.testing.assert_array_equal(model.predict(X), predicted)


@each
def test_a_fit_survives_a_pickle_with_its_statement(kind, ledger):
    model = fitted(kind, ledger=str(ledger.path))
    copy = pickle.loads(pickle.dumps(model))
    assert copy.privacy_ == model.privacy_
    assert copy.privacy_.statement == model.privacy_.statement
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


@each
def test_fits_in_two_processes_are_all_counted(kind, ledger):
    model = make(kind, ledger=str(ledger.path))
    found = cross_validate(model, X, target(model), cv=3, n_jobs=2, return_estimator=True, error_score="raise")
    counted = [each.privacy_.counted.runs for each in found["estimator"]]
    assert len(ledger.runs()) == max(counted) == 3  # whoever came last has counted all
    assert ledger.spent() == sum((each.privacy_.events for each in found["estimator"]), Counter())


@each
def test_it_takes_what_the_encoder_makes_of_a_frame(kind):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"dose": X[:, 0], "ward": np.where(X[:, 1] > 0.5, "eyes", "heart")})
    frame.loc[3] = [np.nan, "elsewhere"]
    encoder = SchemaEncoder(
        bounds={"dose": (0, 1)}, categories={"ward": ["eyes", "heart"]}, missing="zero", unknown="zero"
    )
    line = make_pipeline(encoder, make(kind))
    line.fit(frame, target(line[-1]))
    assert line[-1].n_features_in_ == 3
    assert line.predict(frame).shape == (300,)
    assert line[-1].privacy_.private


def test_a_fit_that_is_refused_is_not_paid_for(ledger):
    rows = tacit.Problem([(X / 2, np.ones(300))])
    graph = private_graph(rows, tacit.SeededNoise(0), Gaussian(50.0), 0.3)
    with pytest.raises(InputError, match="does not protect"):
        fitted(PrivateFusedLogisticRegression, graph=graph, ledger=ledger)
    assert not ledger.spent()


# What was stated falsely once.


@pytest.mark.parametrize("paid", [False, True], ids=["no ledger", "ledger"])
def test_a_search_in_two_processes_does_not_state_a_total_that_it_cannot_know(paid, ledger):
    """Eleven fits, ten of them in other processes: a counter of this process has seen one."""
    model = make(FederatedClassifier, ledger=str(ledger.path) if paid else None)
    search = GridSearchCV(model, {"intercept": [True, False]}, cv=5, n_jobs=2, error_score="raise").fit(X, Y)
    told = search.best_estimator_.privacy_.statement
    assert told.endswith(covered(11, 50) if paid else ALONE)
    assert len(ledger.runs()) == (11 if paid else 0)


@pytest.mark.parametrize("graph", ["path", "private"])
def test_a_fused_lasso_pays_for_its_rounds_and_its_graph(graph, ledger, monkeypatch):
    kind, settings = PrivateFusedLogisticRegression, {"graph": graph, "rounds": None}
    model = fitted(kind, 20.0, **settings, ledger=ledger)
    assert ledger.spent() == model.privacy_.events
    assert ledger.spent().total() == model.n_iter_ + (graph == "private")
    ledger.set_cap(Cap(20.5, 1e-5))
    monkeypatch.setattr("tacit.estimators.base.SecureNoise", NoNoise)
    with pytest.raises(BudgetExceeded):
        fitted(kind, 20.0, **settings, ledger=ledger)


@pytest.mark.parametrize("learnt", [MinMaxScaler(), SimpleImputer()], ids=lambda step: type(step).__name__)
def test_features_that_were_learnt_from_the_records_are_told_as_a_condition(learnt):
    """One record moves the features of all the others: the noise of a fit does not hide that. After an encoder from
    public knowledge it moves its own features alone."""
    holed = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    other = holed.copy()
    other[0] = 1e3
    public = SchemaEncoder(bounds=(0, 1), missing="zero")
    moved = {step: clone(step).fit_transform(holed) != clone(step).fit_transform(other) for step in (learnt, public)}
    assert np.any(moved[learnt][1:])
    assert not np.any(moved[public][1:])
    model = make(FederatedClassifier, method="one-shot")
    line = make_pipeline(MinMaxScaler(), SimpleImputer(), model).fit(holed, Y)
    assert CONDITION in line[-1].privacy_.statement
    told = make_pipeline(public, model).fit(holed, Y)[-1].privacy_
    assert told.statement.endswith(ALONE)


def test_a_scaler_that_is_fitted_in_every_fold_hides_no_fit(ledger):
    """The same records have other values in each fold. A ledger does not look at values."""
    line = make_pipeline(MinMaxScaler(), make(FederatedClassifier, ledger=str(ledger.path)))
    search = GridSearchCV(line, {"federatedclassifier__epsilon": [0.5, 1.0]}, cv=3, error_score="raise").fit(X, Y)
    told = search.best_estimator_[-1].privacy_.statement
    assert told.endswith(covered(7, 50))
    assert CONDITION in told
    assert len(ledger.runs()) == 7


def test_noise_that_sites_share_is_told_of_the_ledger_too(ledger):
    model = make(FederatedClassifier, method="auto", colluders=1, ledger=ledger).fit(X, Y, sites=np.arange(300) % 3)
    assert model.privacy_.statement.endswith(f"{covered(1, 50)}, against any one member")
