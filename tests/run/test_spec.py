"""A run as data: it comes back from a file as it was, runs as it did, and is refused where it is wrong."""

import dataclasses

import numpy as np
import pytest
from test_parts import EXAMPLES

import tacit
from tacit.algorithms import ConsensusADMM, Geometric, RecycledADMM
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Logistic
from tacit.errors import InputError
from tacit.privacy.events import Gaussian
from tacit.run.limits import Budget
from tacit.run.spec import RunSpec, Trust
from tacit.workflows.recipes import RECIPES, Reserve

RING = Graph.ring(5)
SIZES = [30, 40, 50, 60, 70]
SPEC = RunSpec(
    RecycledADMM(penalty=Geometric(1.0, 1.04), gamma=0.2, budget=Gaussian(3.0)),
    rounds=6,
    loss=HuberHinge(0.5),
    graph=RING,
    l2=0.01,
    radius=64.0,
    budget=Budget(40.0, 1e-5),
)


def again(spec, folder):
    path = folder / "run.toml"
    path.write_text(spec.to_toml())
    return RunSpec.from_toml(path)


@pytest.mark.parametrize("method", EXAMPLES, ids=lambda method: type(method).__name__)
def test_a_run_of_every_method_comes_back_from_a_file(method, tmp_path):
    spec = dataclasses.replace(SPEC, method=method, budget=None, trust=Trust(robust="clipping"))
    found = again(spec, tmp_path)
    assert (found.digest, found.plain()) == (spec.digest, spec.plain())
    assert found.trust == spec.trust


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if not recipe.alone])
def test_what_a_recipe_chooses_comes_back_from_a_file(name, tmp_path):
    """The same plan, to the last bit."""
    reserve = Reserve(1) if RECIPES[name].shared else None
    setting = RECIPES[name].setting(SIZES, 4, RING, 2.0, 1e-5, reserve=reserve)
    facts = setting.facts
    trust = Trust() if reserve is None else Trust(colluders=1)
    spec = RunSpec(
        setting.algorithm, setting.rounds, facts.loss, RING, facts.l2, facts.radius, Budget(2.0, 1e-5), trust
    )
    found = again(spec, tmp_path)
    assert found.digest == spec.digest
    if name in ("rcd", "token-gd"):  # thousands of ticks
        return
    before, after = spec.plan(facts), found.plan(found.facts(SIZES, 4))
    assert after.epsilon(1e-5) == before.epsilon(1e-5) <= 2.0
    assert list(map(list, after.events)) == list(map(list, before.events))


def test_a_run_from_a_file_has_the_bits_of_the_run(tmp_path):
    rng = np.random.default_rng(1)
    parts = [(rng.uniform(-0.5, 0.5, size=(n, 3)), rng.choice([-1.0, 1.0], n)) for n in SIZES]
    models = []
    for spec in (SPEC, again(SPEC, tmp_path)):
        facts = spec.facts(SIZES, 3)
        problem = tacit.Problem(parts, loss=spec.loss, scale=facts.scale, l2=spec.l2, radius=spec.radius)
        run = tacit.simulate(spec.method, problem, spec.graph, rounds=spec.rounds, noise=tacit.SeededNoise(5))
        models.append(run.estimate)
    np.testing.assert_array_equal(*models)
    assert np.abs(models[0]).max() > 0


def test_every_field_is_in_the_digest():
    changes = {
        "method": ConsensusADMM(),
        "rounds": 7,
        "loss": Logistic(),
        "graph": Graph.complete(5),
        "l2": 0.02,
        "radius": 65.0,
        "budget": Budget(40.0, 1e-6),
        "trust": Trust(colluders=0),
    }
    assert changes.keys() == {field.name for field in dataclasses.fields(RunSpec)}
    digests = {dataclasses.replace(SPEC, **{name: value}).digest for name, value in changes.items()}
    assert len(digests | {SPEC.digest}) == len(changes) + 1


def test_whole_numbers_of_a_person_are_the_same_run(tmp_path):
    text = SPEC.to_toml().replace("l2 = 0.01", "l2 = 1").replace("gamma = 0.2", "gamma = 2").replace("64.0", "64")
    (tmp_path / "run.toml").write_text(text)
    method = dataclasses.replace(SPEC.method, gamma=2.0)
    assert RunSpec.from_toml(tmp_path / "run.toml").digest == dataclasses.replace(SPEC, l2=1.0, method=method).digest


def test_a_run_that_costs_more_than_its_budget_is_refused():
    facts = SPEC.facts(SIZES, 3)
    cost = SPEC.plan(facts).epsilon(1e-5)
    with pytest.raises(InputError, match=r"the run costs epsilon = .*, and its budget is"):
        dataclasses.replace(SPEC, budget=Budget(0.99 * cost, 1e-5)).plan(facts)
    with pytest.raises(InputError, match="the run is for 5 agents, not for 4"):
        SPEC.facts(SIZES[:4], 3)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("rounds = 6\n", "", "a run needs rounds"),
        ("rounds = 6", "rounds = 0", "rounds must be"),
        ("rounds = 6", "rounds = 6.5", "rounds must be"),
        ("rounds = 6", "rounds = 1000000000", "more than the"),
        ("rounds = 6", "speed = 1\nrounds = 6", "a run has no 'speed'"),
        ("l2 = 0.01", "l2 = -1.0", "l2 must be"),
        ("l2 = 0.01", "l2 = nan", "l2 must be"),
        ('kind = "huber"', 'kind = "r-admm"', "the kind of the loss is one of"),
        ('kind = "r-admm"', 'kind = "huber"', "the kind of the method is one of"),
        ("epsilon = 40.0", "epsilon = 5000.0", "protects nothing"),
        ("epsilon = 40.0, ", "", "budget needs epsilon"),
        ("[0, 1]", "[0, 0]", "agent 0"),
        ("[0, 1]", '["a", "b"]', "edges are pairs"),
        ("agents = 5", "agents = 50", "not connected|apart"),
        ("rounds = 6", "rounds = [", "is not TOML"),
    ],
    ids=str,
)
def test_a_file_that_is_wrong_is_refused_in_one_line(tmp_path, old, new, complaint):
    text = SPEC.to_toml()
    assert old in text
    path = tmp_path / "run.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(tacit.TacitError, match=complaint) as refused:
        RunSpec.from_toml(path)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        RunSpec.from_toml(tmp_path / "none.toml")
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        RunSpec.from_toml(tmp_path / "run.toml")


def test_trust_that_makes_no_sense():
    with pytest.raises(InputError, match="give colluders, too"):
        Trust(dropouts=1)
    with pytest.raises(InputError, match="robust is one of"):
        Trust(robust="magic")
