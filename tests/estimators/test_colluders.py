"""Estimators whose sites share the noise."""

import numpy as np
import pytest

from tacit.core.graph import Graph
from tacit.errors import GraphError, InputError
from tacit.estimators import FederatedClassifier, FederatedRegressor
from tacit.privacy import filters
from tacit.privacy.events import SharedGaussian
from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger
from tacit.run.spending import worst

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(6000, 3))
Y = np.where(X @ [2.0, -1.0, 0.0] + 0.3 * RNG.normal(size=6000) > 0, "yes", "no")
SITES = np.arange(6000) % 5
PUBLIC = {"bounds": (-1, 1), "classes": ["no", "yes"]}


def test_sites_that_share_their_noise():
    model = FederatedClassifier(epsilon=1.0, colluders=2, **PUBLIC).fit(X, Y, sites=SITES)
    privacy = model.privacy_
    assert model.score(X, Y) > 0.85
    assert 0.99 < privacy.epsilon <= 1
    assert model.graph_ == Graph.complete(5)
    assert privacy.coalitions.colluders == 2
    costs = [cost for _, cost in privacy.coalitions.curve]
    assert costs[2] == 1 < costs[4]
    assert f"of the same site, against any 2 of the 4 other members together; against 4: ({costs[4]:g}, 1e-05)" in (
        privacy.statement
    )
    assert "at most 2 sites put together what they know" in privacy.assumptions


def test_numbers_too():
    y = 3 * X[:, 0] + 5
    model = FederatedRegressor(epsilon=2.0, colluders=1, bounds=(-1, 1), target_bounds=(2, 8)).fit(X, y, sites=SITES)
    assert model.score(X, y) > 0.8
    assert "against any one of the 4 other members" in model.privacy_.statement


def test_a_ledger_pays_for_shared_noise(tmp_path):
    path = tmp_path / "ward.ledger"
    with Ledger.new(path, population="ward", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(1.2, 1e-5))
        model = FederatedClassifier(epsilon=1.0, colluders=1, ledger=ledger, **PUBLIC).fit(X, Y, sites=SITES)
        assert ledger.spent() == model.privacy_.events
        assert {type(event) for event in ledger.spent()} == {SharedGaussian}
        with pytest.raises(BudgetExceeded):
            model.fit(X, Y, sites=SITES)


def test_a_noisy_count_is_paid_against_all(tmp_path):
    """Its noise is local: against four of five members the fit costs more than the count, and the count is in it."""
    model = FederatedClassifier(epsilon=1.0, colluders=1, positive_share="noisy", **PUBLIC).fit(X, Y, sites=SITES)
    assert {type(event).__name__ for event in model.privacy_.events} == {"SharedGaussian", "Gaussian"}
    assert 0.99 < model.privacy_.epsilon <= 1


def test_the_worst_share_is_paid():
    small, large = (SharedGaussian(m, members=5, colluders=1) for m in (2.0, 3.0))
    assert worst([[small], [large]]) == [small]
    other = SharedGaussian(2.5, members=5, colluders=2)
    assert worst([[small], [other]]) == sorted([small, other], key=repr)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"colluders": 1}, "give epsilon, too"),
        ({"epsilon": 1.0, "dropouts": 1}, "give colluders, too"),
        ({"epsilon": 1.0, "colluders": 5}, "of 5 members, 5 colluders and 0 dropouts leave none"),
        ({"epsilon": 1.0, "colluders": -1}, "colluders must be a whole number, 0 or more, not -1"),
        ({"epsilon": 1.0, "colluders": 1, "method": "pvp"}, "or take shared-descent"),
        ({"epsilon": 1.0, "method": "shared-descent"}, "say how many members may collude"),
    ],
)
def test_what_does_not_go_together(settings, says):
    with pytest.raises(InputError, match=says):
        FederatedClassifier(**settings, **PUBLIC).fit(X, Y, sites=SITES)


def test_a_graph_that_colluders_cut():
    with pytest.raises(GraphError, match="can cut this graph in two"):
        FederatedClassifier(epsilon=1.0, colluders=2, graph="ring", **PUBLIC).fit(X, Y, sites=SITES)
