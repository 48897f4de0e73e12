"""A run as data: it comes back from a file as it was, runs as it did, and is refused where it is wrong."""

import dataclasses
import warnings

import numpy as np
import pytest
from test_parts import EXAMPLES

import tacit
from tacit.algorithms import (
    DGD,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    RandomAggregationADMM,
    RecycledADMM,
    SummedGradientDescent,
    TokenGradientDescent,
)
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Logistic
from tacit.errors import InputError
from tacit.privacy.events import Gaussian
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.setting import Setting
from tacit.run.spec import RunSpec
from tacit.run.trust import Reserve, Trust

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
GRAPH_TEXT, METHOD_TEXT = (line for line in SPEC.to_toml().splitlines() if line.startswith(("graph", "method")))


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


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if not recipe.traits.alone])
def test_what_a_recipe_chooses_comes_back_from_a_file(name, tmp_path):
    """The same plan, to the last bit."""
    reserve = Reserve(1) if RECIPES[name].traits.totals else None
    setting = RECIPES[name].setting(SIZES, 4, RING, Budget(2.0, 1e-5), Trust.of(reserve))
    facts = setting.facts
    trust = Trust() if reserve is None else Trust(colluders=1)
    spec = RunSpec(
        setting.algorithm, setting.rounds, facts.loss, RING, facts.l2, facts.radius, Budget(2.0, 1e-5), trust
    )
    found = again(spec, tmp_path)
    assert found.digest == spec.digest
    if name in ("rcd", "token-gd"):  # thousands of ticks
        return
    before, after = setting.plan, Setting.of(found, SIZES, 4).plan
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
        "scale": 2.0,
        "count": True,
        "tolerance": 1e-3,
        "recipe": "mr-admm",
        "schema": "0" * 64,
    }
    assert changes.keys() == {field.name for field in dataclasses.fields(RunSpec)}
    free = dataclasses.replace(SPEC, budget=None)  # a tolerance is for runs without a budget
    digests = {dataclasses.replace(free, tolerance=changes.pop("tolerance")).digest, free.digest}
    digests |= {dataclasses.replace(SPEC, **{name: value}).digest for name, value in changes.items()}
    assert len(digests | {SPEC.digest}) == len(changes) + 3


def test_whole_numbers_of_a_person_are_the_same_run(tmp_path):
    text = SPEC.to_toml().replace("l2 = 0.01", "l2 = 1").replace("gamma = 0.2", "gamma = 2").replace("64.0", "64")
    (tmp_path / "run.toml").write_text(text)
    method = dataclasses.replace(SPEC.method, gamma=2.0)
    assert RunSpec.from_toml(tmp_path / "run.toml").digest == dataclasses.replace(SPEC, l2=1.0, method=method).digest


def test_one_is_one_also_in_the_tables_of_a_run(tmp_path):
    whole = dataclasses.replace(SPEC, scale=2, budget=Budget(40, 1e-5))
    assert whole.digest == dataclasses.replace(SPEC, scale=2.0).digest
    path = tmp_path / "run.toml"
    path.write_text(SPEC.to_toml().replace("epsilon = 40.0", "epsilon = 40") + "scale = 2\n")
    assert RunSpec.from_toml(path).digest == whole.digest


def test_long_lists_take_several_lines(tmp_path):
    """Readers of files limit the length of a line."""
    alpha = np.random.default_rng(0).uniform(1, 2, (300, 5))
    spec = dataclasses.replace(SPEC, method=DualPerturbedADMM(penalty=1.0, alpha=alpha.tolist()), budget=None)
    found = again(spec, tmp_path)
    np.testing.assert_array_equal(found.method.alpha, alpha)
    assert found.digest == spec.digest
    assert max(map(len, spec.to_toml().splitlines())) < 150


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("recipe = 5", "recipe of a run is a text, not 5"),
        ("count = 1", "count of a run is true or false, not 1"),
        ("trust = { robust = [1] }", "robust of trust is a text"),
        ('tolerance = "small"', "tolerance must be"),
    ],
)
def test_values_of_another_type_are_refused(tmp_path, line, complaint):
    path = tmp_path / "run.toml"
    path.write_text(SPEC.to_toml() + line + "\n")
    with pytest.raises(InputError, match=complaint):
        RunSpec.from_toml(path)


def test_a_method_and_its_members_trust_the_same():
    """A method says itself how many may collude: what the members are told must be that."""
    shared = dataclasses.replace(SPEC, method=SummedGradientDescent(step=0.1, deviation=9.0), trust=Trust(1))
    graph = Graph.complete(5)
    assert Setting.of(dataclasses.replace(shared, graph=graph), SIZES, 3).spec.trust.colluders == 1
    with pytest.raises(InputError, match="the method shares its noise for colluders = 1 and dropouts = 0"):
        Setting.of(dataclasses.replace(shared, graph=graph, trust=Trust(0)), SIZES, 3)
    with pytest.raises(InputError, match="its members do not share their noise"):
        Setting.of(dataclasses.replace(SPEC, trust=Trust(1)), SIZES, 3)


def test_a_run_that_costs_more_than_its_budget_is_refused():
    cost = Setting(SPEC, SPEC.facts(SIZES, 3)).plan.epsilon(1e-5)
    with pytest.raises(InputError, match=r"the run costs epsilon = .*, and its budget is"):
        Setting.of(dataclasses.replace(SPEC, budget=Budget(0.99 * cost, 1e-5)), SIZES, 3)
    with pytest.raises(InputError, match="the run is for 5 agents, not for 4"):
        SPEC.facts(SIZES[:4], 3)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"method": TokenGradientDescent(step=0.1, budget=Gaussian(9.0))}, "all members speak at once"),
        ({"graph": Graph.path(5)}, "robust listening needs 2 neighbours"),
        ({"method": SummedGradientDescent(step=0.1), "budget": None}, "all members speak at once"),
    ],
    ids=["token", "path", "totals"],
)
def test_members_that_cannot_listen_robustly_are_refused_before_anything_is_paid(change, complaint):
    robust = dataclasses.replace(SPEC, trust=Trust(robust="clipping"))
    assert Setting.of(robust, SIZES, 3).spec == robust
    with pytest.raises(InputError, match=complaint):
        Setting.of(dataclasses.replace(robust, **change), SIZES, 3)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("rounds = 6\n", "", "a run needs rounds"),
        ("rounds = 6", "rounds = 0", "rounds must be"),
        ("rounds = 6", "rounds = 6.5", "rounds must be"),
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
        (GRAPH_TEXT, 'graph = { agents = 1000000000000, kind = "ring" }', "1,000,000 agents at most"),
        ("rounds = 6", "rounds = [", r"run.toml is not a TOML file such as tacit plan --spec-out writes"),
        ("[0, 1]", "[0, 7]", "run.toml: edge 0-7 names an agent that is not"),
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


@pytest.mark.parametrize("part", ["method", "loss"])
def test_a_name_alone_is_no_part(tmp_path, part):
    plain = SPEC.plain() | {part: "huber"}
    with pytest.raises(InputError, match=f"the {part} is a table with its kind"):
        RunSpec.from_plain(plain)


def test_a_file_as_windows_saves_it_is_the_same_run(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SPEC.to_toml().replace("\n", "\r\n").encode())
    assert RunSpec.from_toml(path) == SPEC


def test_another_file_of_ours_is_named(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text("version = 1\n")
    with pytest.raises(InputError, match="is a schema or a federation file, not the file of a run"):
        RunSpec.from_toml(path)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(InputError, match=r"none.toml does not"):
        RunSpec.from_toml(tmp_path / "none.toml")
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="save the file as UTF-8"):
        RunSpec.from_toml(tmp_path / "run.toml")


def test_trust_that_makes_no_sense():
    with pytest.raises(InputError, match="give colluders, too"):
        Trust(dropouts=1)
    with pytest.raises(InputError, match="robust is one of"):
        Trust(robust="magic")


HUGE = 10**400  # TOML has whole numbers of any length


@pytest.mark.parametrize("value", [HUGE, True, -HUGE], ids=["huge", "true", "-huge"])
@pytest.mark.parametrize("name", ["l2", "radius", "scale", "epsilon"])
def test_what_is_no_number_is_refused_in_a_line(name, value, tmp_path):
    """A number too large for a double ended with a traceback; true was taken for 1."""
    plain = SPEC.plain()
    (plain["budget"] if name == "epsilon" else plain)[name] = value
    with pytest.raises(InputError, match=f"{name} must be .*positive number, not"):
        RunSpec.from_plain(plain)


def test_numbers_of_numpy_have_the_digest_of_plain_ones():
    """They had none: JSON cannot carry them."""
    plain = dataclasses.replace(SPEC, rounds=3, l2=0.5, scale=2.0, budget=Budget(8.0, 0.25, "made up"), trust=Trust(1))
    budget, trust = Budget(np.float32(8.0), np.float32(0.25), "made up"), Trust(np.int64(1), np.int8(0))
    of_numpy = {"rounds": np.int64(3), "l2": np.float32(0.5), "scale": np.int64(2), "budget": budget, "trust": trust}
    assert dataclasses.replace(SPEC, **of_numpy).digest == plain.digest
    exact = dataclasses.replace(SPEC, budget=None, tolerance=0.25)
    assert dataclasses.replace(exact, tolerance=np.float32(0.25)).digest == exact.digest


def test_the_largest_numbers_overflow_nowhere():
    """They ended with an OverflowError in the middle of a plan or of a run."""
    parts = [(np.full((n, 2), 0.5), np.resize([-1.0, 1.0], n)) for n in SIZES]
    steep = dataclasses.replace(SPEC, method=DGD(step=0.1, mixing=0.2, decay=32.0), rounds=40, budget=None)
    assert np.all(np.isfinite(Setting.of(steep, SIZES, 2).simulate(parts, None).weights))
    with pytest.raises(InputError, match="decay must be 32 at most"):
        DGD(step=0.1, mixing=0.2, decay=1e300)
    long = RandomAggregationADMM(penalty=1.0, beta=1.0, row_norm=1e155)
    setting = Setting.of(dataclasses.replace(SPEC, method=long, budget=None), SIZES, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it may not converge
        with pytest.raises(InputError, match="rounding in double precision can move"):
            setting.guarantee(1e-5)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (GRAPH_TEXT, 'graph = { kind = "complete", agents = 1000000 }', "at most 134,217,728 edges"),
        (GRAPH_TEXT, 'graph = { kind = "random:400000000", agents = 1000000 }', "at most 134,217,728 edges"),
        (GRAPH_TEXT, "graph = { agents = 1000000000, edges = [[0, 1]] }", "1,000,000 agents at most"),
        ('kind = "huber", width = 0.5', 'kind = "multinomial", classes = 1000000000', "at most 65,536 classes"),
        (METHOD_TEXT, 'method = { kind = "pw-admm", tokens = 1000000000 }', "at most 4,096 tokens"),
    ],
    ids=["complete", "random", "agents", "classes", "tokens"],
)
def test_a_file_that_needs_all_the_memory_is_refused(before, after, words, tmp_path):
    """One line of a file from somebody else could take hundreds of gigabytes."""
    text = SPEC.to_toml()
    assert before in text
    (tmp_path / "run.toml").write_text(text.replace(before, after))
    with pytest.raises(tacit.TacitError, match=words):
        RunSpec.from_toml(tmp_path / "run.toml")
