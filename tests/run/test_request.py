"""A request: what somebody asks for becomes one run, or is refused, before any record is read."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

import tacit
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge
from tacit.core.multinomial import Multinomial
from tacit.data import Classes, Multiclass, Target
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.run.budget import Budget
from tacit.run.parts import METHODS
from tacit.run.recipes import RECIPES
from tacit.run.request import Request, specified
from tacit.run.setting import Setting
from tacit.run.spec import RunSpec
from tacit.run.trust import LOCAL, Trust

TWO = Classes("ill", positive=("yes",), negative=("no",))
RING, SIZES, TOTAL = Graph.ring(4), [300, 240, 150, 120], Budget(2.0, 1e-4)


def resolved(label=TWO, sizes=SIZES, graph=RING, row_norm=1.0, **asked):
    return Request(**asked).resolved(label, sizes, 4 * label.outputs, graph, row_norm=row_norm)


def test_a_recipe_is_the_default_of_a_private_run():
    found = resolved(budget=TOTAL)
    direct = RECIPES["pvp"].setting(SIZES, 4, RING, TOTAL)
    assert found.name == "pvp"
    assert found.spec.digest == direct.spec.digest
    assert 0.99 * TOTAL.epsilon < found.plan.epsilon(TOTAL.delta) <= TOTAL.epsilon


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if not recipe.traits.alone])
def test_what_a_file_says_is_the_run_that_wrote_it(name, count, tmp_path):
    """Also that its numbers are those of the recipe that it names."""
    if count and not RECIPES[name].counts:
        return
    trust = Trust(1) if RECIPES[name].traits.totals else LOCAL
    found = resolved(budget=TOTAL, trust=trust, method=name, count=count, graph=Graph.complete(4))
    (tmp_path / "run.toml").write_text(found.spec.to_toml())
    again = Request(spec=RunSpec.from_toml(tmp_path / "run.toml")).resolved(TWO, SIZES, 4, RING)
    assert (again.name, again.spec.digest) == (name, found.spec.digest)
    assert again.events == found.events
    if count:
        assert again.centred(0.2).spec.digest == found.centred(0.2).spec.digest


def test_the_budget_pays_for_the_tick_that_a_drop_out_leaves_in_doubt():
    """That tick is said twice: the plan has noise for one round more, and a run of one round more is refused."""
    found = resolved(budget=TOTAL, trust=Trust(1, dropouts=1), method="shared-descent", graph=Graph.complete(4))
    longer = dataclasses.replace(found.spec, rounds=found.spec.rounds + 1, recipe="")
    said_twice = dataclasses.replace(found, spec=longer)
    assert 0.99 * TOTAL.epsilon < said_twice.guarantee(TOTAL.delta).epsilon <= TOTAL.epsilon
    with pytest.raises(InputError, match="costs epsilon"):
        specified(longer, TWO, SIZES, 4)


def test_numbers_that_are_not_those_of_the_recipe_are_noticed():
    spec = resolved(budget=TOTAL, method="gradient-descent").spec
    method = dataclasses.replace(spec.method.method, step=2 * spec.method.method.step)
    changed = dataclasses.replace(spec, method=dataclasses.replace(spec.method, method=method))
    with pytest.raises(InputError, match=f"not those of the recipe 'gradient-descent' for --rows {SIZES[0]},"):
        specified(changed, TWO, SIZES, 4)
    free = specified(dataclasses.replace(changed, recipe=""), TWO, SIZES, 4)
    assert free.name == "gradient-descent"
    with pytest.raises(InputError, match="there is no recipe 'magic'"):
        specified(dataclasses.replace(spec, recipe="magic"), TWO, SIZES, 4)


def test_a_file_that_costs_more_than_it_says_is_refused():
    spec = dataclasses.replace(resolved(budget=TOTAL).spec, budget=Budget(1.0, 1e-4), recipe="")
    with pytest.raises(InputError, match=r"the run costs epsilon = 2, .* and its budget is 1|the run costs epsilon"):
        specified(spec, TWO, SIZES, 4)
    with pytest.raises(InputError, match="the run is for 4 agents, not for 3"):
        specified(dataclasses.replace(spec, budget=None), TWO, SIZES[:3], 4)
    with pytest.raises(InputError, match="does not fit the label"):
        specified(spec, Target("y", bounds=(0, 1)), SIZES, 4)
    with pytest.raises(InputError, match="records of another schema"):
        specified(dataclasses.replace(spec, schema="a" * 64), TWO, SIZES, 4, "b" * 64)


@pytest.mark.parametrize(
    ("name", "own", "law"),
    [
        ("dvp", (), Gaussian),
        ("pvp", ('centre="printed"',), Gaussian),
        ("m-admm", ('penalty={kind="geometric",first=0.5,ratio=1.02}',), Gaussian),
        ("r-admm", ("gamma=0.3",), Pure),
        ("mr-admm", ('penalty={kind="geometric",first=0.5,ratio=1.02}', "gamma=0.3"), Gaussian),
        ("pi-admm", (), Gaussian),
        ("gradient-descent", ("step=0.5",), Gaussian),
        ("ra-admm", (), Pure),
        ("rcd", ("step=0.1",), Gaussian),
        ("token-gd", ("step=0.1",), Gaussian),
        ("shared-descent", ("step=0.5", "momentum=0.2"), Gaussian),
    ],
)
def test_noise_is_calibrated_for_settings_of_ones_own(name, own, law):
    trust = Trust(1) if RECIPES[name].traits.totals else LOCAL
    penalty = None if own else 0.7
    more = {"law": "pure"} if law is Pure else {}
    graph = Graph.complete(4)
    found = resolved(budget=TOTAL, trust=trust, method=name, own=own, penalty=penalty, rounds=6, graph=graph, **more)
    cost = found.guarantee(TOTAL.delta).epsilon
    assert 0.99 * TOTAL.epsilon < cost <= TOTAL.epsilon
    assert found.full_rounds == 6
    for text in own:
        field, _, value = text.partition("=")
        if value.replace(".", "").isdecimal():
            assert getattr(found.algorithm, field) == float(value)
    assert not found.spec.recipe


def test_the_papers_own_noise_is_taken_as_it_is():
    """Without a budget nothing is claimed; with one, the run must keep it."""
    found = resolved(method="dvp", own=("alpha=2",), rounds=5)
    assert found.algorithm.alpha == 2.0
    assert found.spec.budget is None
    cost = found.guarantee(1e-4).epsilon
    assert 0 < cost < math.inf
    kept = resolved(budget=Budget(1.01 * cost, 1e-4), method="dvp", own=("alpha=2",), rounds=5)
    assert kept.guarantee(1e-4).epsilon == cost
    with pytest.raises(InputError, match="the run costs epsilon"):
        resolved(budget=Budget(0.99 * cost, 1e-4), method="dvp", own=("alpha=2",), rounds=5)


def test_parameters_of_a_method_without_noise():
    found = resolved(method="i-admm", own=("penalty=0.2",), l2=0.01)
    assert found.algorithm.penalty == 0.2
    assert found.spec.l2 == 0.01
    assert found.plan.epsilon(1e-5) == math.inf


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"method": "mr-admm"}, "mr-admm is private: give epsilon"),
        ({"method": "magic"}, "without epsilon, method is one of admm"),
        ({"budget": TOTAL, "method": "admm"}, "with epsilon, method is one of dvp"),
        ({"budget": TOTAL, "l2": 1.0}, "leave out l2, or name the method"),
        ({"budget": TOTAL, "method": "pvp", "rounds": 9}, "rounds is for a run with settings of your own"),
        ({"budget": TOTAL, "tolerance": 1e-3}, "does not stop early"),
        ({"tolerance": 0.0}, "tolerance must be a positive number"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"penalty": -1.0}, "penalty must be a positive number"),
        ({"loss": "magic"}, "loss must be one of"),
        ({"law": "pure"}, "law says how a budget is spent"),
        ({"budget": TOTAL, "method": "dvp", "penalty": 1.0, "law": "cauchy"}, "law must be one of gaussian, pure"),
        (
            {"budget": TOTAL, "method": "token-gd", "own": ("step=0.1",), "law": "pure"},
            "law must be one of gaussian; not",
        ),
        (
            {"budget": TOTAL, "trust": Trust(1), "method": "shared-descent", "own": ("step=0.1",), "law": "pure"},
            "law must be one of gaussian; not",
        ),
        ({"own": ("gamma=1",)}, "is about one method: name it"),
        ({"method": "admm", "own": ("gamma=1",)}, "admm has no 'gamma'"),
        ({"method": "admm", "own": ("penalty=1", "penalty=2")}, "penalty is given twice"),
        ({"method": "r-admm", "budget": TOTAL, "own": ("noise_on=output",)}, "a text needs quotation marks"),
        ({"method": "admm", "own": ("penalty",)}, "a parameter is NAME=VALUE"),
        ({"method": "admm", "own": ("kind='i-admm'",)}, "a parameter is NAME=VALUE"),
        ({"method": "admm", "own": ("penalty=1\nrounds=2",)}, "a parameter is NAME=VALUE"),
        ({"method": "dvp", "budget": TOTAL, "own": ("alpha=-1",)}, "alpha must be positive"),
        ({"trust": Trust(1)}, "give epsilon, too"),
        ({"trust": Trust(1), "budget": TOTAL, "method": "pvp"}, "or take shared-descent"),
        ({"budget": TOTAL, "method": "shared-descent"}, "how many members may collude"),
        ({"trust": Trust(4), "budget": TOTAL}, "4 colluders and 0 dropouts leave none"),
        ({"trust": Trust(2), "budget": TOTAL}, "2 members can cut this graph in two"),
        ({"trust": Trust(robust="median"), "budget": TOTAL, "method": "pi-admm"}, "all members speak at once"),
        ({"count": True}, "is paid for by a budget"),
        ({"count": True, "budget": TOTAL, "method": "one-shot"}, "cannot pay for a noisy count"),
        ({"budget": TOTAL, "method": "dp-admm"}, "for one holder of all records, not for 4"),
        ({"budget": Budget(1.0, 0.1)}, "delta"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_one_line(asked, message):
    with pytest.raises(tacit.TacitError, match=message) as refused:
        resolved(**asked)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("method", ["run.toml", {"kind": "pvp"}, 3], ids=str)
def test_a_method_is_a_name(method):
    with pytest.raises(InputError, match="method is a name; the file of a run is given with --spec"):
        Request(method=method, budget=TOTAL)


def test_a_file_says_everything():
    spec = resolved(budget=TOTAL).spec
    given = {"budget": TOTAL, "method": "pvp", "trust": Trust(1), "l2": 0.1, "own": ("gamma=1",)}
    for (name, value), called in zip(given.items(), ("epsilon", "method", "colluders", "l2", "--set"), strict=True):
        with pytest.raises(InputError, match=f"the file of a run says everything about it: leave out {called}"):
            Request(spec=spec, **{name: value})
    asked = Request(spec=spec)
    assert (asked.total, asked.trusted, asked.counted) == (TOTAL, LOCAL, False)


@pytest.mark.parametrize("name", ["ra-admm", "pi-admm", "shared-dp-admm"])
def test_no_private_run_stops_at_a_long_row(name):
    """That it stopped would tell about the row, which no noise hides."""
    trust = Trust(1) if RECIPES[name].traits.totals else LOCAL
    spec = resolved(budget=TOTAL, method=name, trust=trust).spec
    method = spec.method
    if hasattr(method, "method"):
        method = dataclasses.replace(method, method=dataclasses.replace(method.method, row_norm=0.5))
    else:
        method = dataclasses.replace(method, row_norm=0.5)
    shorter = dataclasses.replace(spec, method=method, recipe="")
    assert resolved(spec=shorter, row_norm=0.5).guarantee(TOTAL.delta).epsilon <= TOTAL.epsilon
    for norm in (0.9, 1.0):
        with pytest.raises(InputError, match=f"for rows of norm 0.5 at most, and there may be rows of norm {norm:g}"):
            resolved(spec=shorter, row_norm=norm)
    with pytest.raises(InputError, match="for rows of norm 1 at most, and there may be rows of norm 2"):
        resolved(spec=dataclasses.replace(spec, recipe=""), row_norm=2.0)


def test_one_holder_of_all_records_gets_gradient_descent():
    assert resolved(budget=TOTAL, sizes=[900], graph=Graph.ring(1)).name == "gradient-descent"
    with pytest.raises(InputError, match="it needs neighbours"):
        resolved(budget=TOTAL, sizes=[900], graph=Graph.ring(1), method="pvp")


WARDS = Multiclass("ward", classes=("a", "b", "c"))


@pytest.mark.parametrize("name", ["ra-admm", "ra-gd", "token-gd"])
def test_several_classes_need_a_proof_whoever_chose_the_settings(name):
    """By a recipe, with settings of one's own, from a file, and with noise of one's own that states a cost."""
    graph, words = Graph.complete(4), "its privacy proof does not cover a label of 3 classes; take one of: dvp, pvp"
    settled = Request(TOTAL, method=name, penalty=5.0, rounds=3)
    spec = settled.resolved(TWO, [300] * 4, 9, graph).spec
    run = dataclasses.replace(spec, loss=Multinomial(3))
    for asked in (
        Request(TOTAL, method=name),
        settled,
        Request(spec=run),
        Request(spec=dataclasses.replace(run, budget=None)),
    ):
        with pytest.raises(InputError, match=words):
            asked.resolved(WARDS, [300] * 4, 9, graph)
    with pytest.raises(InputError, match=words):  # before any record is read
        settled.check_label(WARDS)


@pytest.mark.parametrize("label", [TWO, Multiclass("ward", classes=("a", "b", "c")), Target("age", bounds=(0, 100))])
def test_every_kind_of_label(label):
    private, exactly = resolved(label, budget=TOTAL), resolved(label)
    assert private.plan.epsilon(TOTAL.delta) <= TOTAL.epsilon
    assert exactly.plan.epsilon(1e-5) == math.inf
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, size=(sum(SIZES), 4))
    y = {Classes: rng.choice([-1.0, 1.0], len(X)), Target: rng.uniform(-1, 1, len(X))}.get(type(label))
    y = rng.integers(0, 3, len(X)).astype(float) if y is None else y
    cuts = np.cumsum(SIZES)[:-1]
    parts = list(zip(np.split(X, cuts), np.split(y, cuts), strict=True))
    done = private.simulate(parts, tacit.SeededNoise(1))
    assert list(done.run.spent) == list(private.plan.spent)
    assert isinstance(done.setting, Setting)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda: Request(TOTAL, count="no"), "count is true or false, not 'no'"),
        (lambda: Request(TOTAL, method="r-admm", own="gamma=1"), r"own is a list of texts, .* not 'gamma=1'"),
        (lambda: Request(TOTAL, method="r-admm", own=(3,)), r"own is a list of texts, .* not \(3,\)"),
        (lambda: Budget(1.0, 0.5, 3), "why delta is right is a text, not 3"),
        (lambda: Budget(1.0, Fraction(1, 10**400)), "delta must lie between 0 and 1"),
        (lambda: Request(method="dvp", own=("alpha=1",), penalty=True), "penalty must be a positive number, not True"),
        (lambda: Request(1.0), "budget is a Budget, not 1.0"),
        (lambda: Request(TOTAL, "clipping"), "trust is a Trust, not 'clipping'"),
        (lambda: Request(spec="run.toml"), "spec is a RunSpec, not 'run.toml'"),
        (lambda: Trust(robust=["clipping"]), r"robust is a str, not \['clipping'\]"),
        (lambda: RunSpec(METHODS["admm"](), 3, HuberHinge(1.0), "ring"), "graph is a Graph, not 'ring'"),
        (lambda: RunSpec(METHODS["admm"](), 3, "huber", Graph.ring(3)), "loss is a Loss, not 'huber'"),
        (
            lambda: RunSpec(METHODS["admm"], 3, HuberHinge(1.0), Graph.ring(3)),
            "an instance of an algorithm, not <class",
        ),
    ],
)
def test_what_has_another_type_is_refused_in_a_line(asked, words):
    """From Python: a text counted as true, and others ended with an AttributeError."""
    with pytest.raises(InputError, match=words):
        asked()


def test_numbers_of_numpy_give_the_same_run():
    mine = {"rounds": np.int64(5), "penalty": np.float32(0.5), "l2": np.float32(0.25)}
    plain = {name: value.item() for name, value in mine.items()}
    run = {"budget": TOTAL, "method": "dvp"}
    assert resolved(**run, **mine).spec.digest == resolved(**run, **plain).spec.digest
