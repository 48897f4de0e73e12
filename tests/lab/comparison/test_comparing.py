"""`tacit.compare`: built-in methods and one's own, on a problem and on records."""

import sys
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.algorithms import ConsensusADMM, PrimalPerturbedADMM, TokenGradientDescent
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge
from tacit.data import Category, Classes, Multiclass, Number, Schema
from tacit.engines import Local
from tacit.errors import InputError
from tacit.extend import Broadcast, Gaussian, gradient_perturbed, needed
from tacit.lab.comparison.compare import compare
from tacit.lab.comparison.contenders import Contender
from tacit.lab.comparison.on_records import on_records
from tacit.lab.comparison.trials import trial
from tacit.run.budget import Budget
from tacit.run.spec import RunSpec
from tacit.run.trust import Reserve, Trust

RING, EPSILON, DELTA = Graph.ring(3), 2.0, 1e-4


class State(NamedTuple):
    f: np.ndarray


@dataclass(frozen=True)
class Descent:
    """A user's own method."""

    step: float
    budget: Gaussian

    def schedule(self, graph):
        return Broadcast(graph)

    def init(self, problem, view, start, heard):
        return State(start)

    def speak(self, s, problem, view, noise, t):
        release = gradient_perturbed(problem, needed(noise), self.budget, s.f, self.step, ids=view.ids, t=t)
        return State(release.value), release

    def listen(self, s, inbox, view, t):
        return State(inbox.with_own(s.f).mean())

    def estimate(self, s):
        return s.f

    def residuals(self, s, view):
        return np.full(len(s.f), np.nan), np.full(len(s.f), np.nan)


def at_budget(budget):
    return Descent(0.5, budget)


MINE = Contender("mine", at_budget, rounds=20)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    parts = []
    for rows in (300, 500, 400):
        X = rng.uniform(-0.5, 0.5, size=(rows, 4))
        parts.append((X, np.sign(X @ [1.0, -2.0, 0.5, 0.0] + 0.2 * rng.normal(size=rows))))
    return tacit.Problem(parts, loss=tacit.losses.HuberHinge(1.0), l2=0.01)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    n = 900
    age, ward = rng.integers(18, 100, n), rng.choice(["surgery", "medicine"], n)
    back = np.where(age + 20 * (ward == "surgery") + rng.normal(0, 15, n) > 65, "yes", "no")
    where = rng.choice(["alder", "birch", "cedar"], n)
    return pd.DataFrame({"hospital": where, "age": age, "ward": ward, "back": back})


SCHEMA = Schema(
    label=Classes("back", positive=("yes",), negative=("no",)),
    columns=(Number("age", bounds=(0.0, 120.0)), Category("ward", categories=("surgery", "medicine"))),
    row_norm=1.0,
)


@pytest.fixture(scope="module")
def on_problem(problem):
    return compare([MINE, "pvp", "admm", "shared-descent"], problem, RING, epsilon=EPSILON, delta=DELTA, seeds=3)


@pytest.fixture(scope="module")
def on_frame(frame):
    names = [MINE, "mr-admm", "admm", "no-privacy", "majority"]
    return compare(names, frame, schema=SCHEMA, divide="hospital", epsilon=EPSILON, delta=DELTA, seeds=3)


def test_a_method_of_ones_own_costs_what_its_plan_says(problem, on_problem):
    made = tacit.calibrate(at_budget, problem, RING, rounds=20, epsilon=EPSILON, delta=DELTA)
    planned = tacit.plan(made, problem, RING, rounds=20).epsilon(DELTA)
    assert on_problem["mine"].epsilon == planned
    assert 0.99 * EPSILON < planned <= EPSILON
    # An instance runs as it is, and the table says what that costs.
    given = Contender("given", Descent(0.5, Gaussian(30.0)), rounds=10)
    cost = compare([given], problem, RING, delta=DELTA, seeds=1)["given"].epsilon
    assert cost == tacit.plan(given.algorithm, problem, RING, rounds=10).epsilon(DELTA) != planned


def test_a_method_costs_what_the_member_that_spends_most_has_spent(problem):
    """The token passes the first member twice, and the others once."""
    given = Contender("given", TokenGradientDescent(step=0.5, budget=Gaussian(30.0)), rounds=4)
    plan = tacit.plan(given.algorithm, problem, RING, rounds=4)
    assert [len(events) for events in plan.events] == [2, 1, 1]
    assert compare([given], problem, RING, delta=DELTA, seeds=1)["given"].epsilon == plan.epsilon(DELTA)


def test_on_a_problem_the_gap_to_the_minimum_is_measured(problem, on_problem):
    made = tacit.calibrate(at_budget, problem, RING, rounds=20, epsilon=EPSILON, delta=DELTA)
    best = problem.value(problem.optimum()).sum()
    for seed, gap in enumerate(on_problem["mine"].errors):
        run = tacit.simulate(made, problem, RING, rounds=20, noise=tacit.SeededNoise(seed))
        assert gap == pytest.approx((problem.value(run.model).sum() - best) / problem.scale.sum(), rel=1e-9)
    assert on_problem["mine"].error_name == "gap"
    assert 0 <= on_problem["admm"].error < 1e-8 < on_problem["pvp"].error  # exact: the minimum
    assert not on_problem["admm"].private
    assert on_problem.names == ["mine", "pvp", "admm", "shared-descent:1"]  # as they were asked for


def test_the_regulariser_of_a_problem_is_that_of_the_private_methods(problem):
    """A budget without limits finds the minimum: the private methods minimise the problem's own objective."""

    def restated(l2):
        sizes = problem.sizes / problem.sizes.mean()
        return problem.restated(loss=problem.loss, scale=7 * sizes, l2=7 * l2, tolerance=1e-9, radius=4096.0)

    strong = restated(0.02)
    found = compare(["pvp", "gradient-descent"], strong, RING, epsilon=500.0, delta=DELTA, seeds=1)
    weakly = strong.value(restated(1e-5).optimum()).sum() - strong.value(strong.optimum()).sum()
    for name in found.names:
        assert found[name].error < 0.1 * weakly / strong.scale.sum()
    with pytest.raises(InputError, match=r"is 0\.3, and may be 0\.025"):
        compare(["pvp"], restated(0.3), RING, epsilon=1.0, delta=DELTA, seeds=1)


def test_built_in_methods_are_those_of_a_comparison_on_the_same_records(frame, on_frame):
    data = SCHEMA.encode(frame)
    sites = ("alder", "birch", "cedar")

    def divide(train, seed):
        return [np.flatnonzero(frame["hospital"].to_numpy()[train.kept] == site) for site in sites]

    trials = [trial(data, SCHEMA, divide, seed) for seed in range(3)]
    only = ["mr-admm", "no-privacy", "majority"]
    for result in on_records(trials, RING, budget=Budget(EPSILON, DELTA), only=only):
        assert on_frame[result.name].errors == result.errors
        assert on_frame[result.name].losses == result.losses
    again = compare([*only, MINE], data, RING, schema=SCHEMA, divide=divide, epsilon=EPSILON, delta=DELTA, seeds=3)
    assert {name: again[name].errors for name in again.names} == {
        name: on_frame[name].errors for name in on_frame.names if name != "admm"
    }


def test_exact_and_own_methods_on_records(on_frame):
    assert abs(on_frame["admm"].error - on_frame["no-privacy"].error) < 0.01  # the same optimum, without pooling
    assert 0.99 * EPSILON < on_frame["mine"].epsilon <= EPSILON
    assert on_frame["mine"].error < on_frame["majority"].error
    assert on_frame.difference("mine") == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("records", ["problem", "frame"])
def test_methods_are_paired(records, request):
    """A method under another name has the same records, graph and noise: it differs by nothing, in any seed."""
    where = {} if records == "problem" else {"schema": SCHEMA, "divide": "hospital"}
    twin = Contender("twin", at_budget, rounds=20)
    given = request.getfixturevalue(records)
    found = compare([MINE, twin], given, RING, epsilon=EPSILON, delta=DELTA, seeds=3, **where)
    assert found["mine"].errors == found["twin"].errors
    assert len(set(found["mine"].errors)) == 3  # and the seeds differ
    assert found.difference("twin") == (0.0, 0.0, 0.0)


def test_what_happens_elsewhere_is_the_same(problem, on_problem):
    with Local(jobs=2).open() as workers:
        asked = ["pvp", "admm", Contender("mine", PrimalPerturbedADMM(penalty=1.0, budget=Gaussian(20.0)), rounds=5)]
        here, there = (
            compare(asked, problem, RING, epsilon=EPSILON, delta=DELTA, seeds=3, workers=at) for at in (None, workers)
        )
    assert [each.errors for each in here.results] == [each.errors for each in there.results]
    assert here["pvp"].errors == on_problem["pvp"].errors


def test_a_table_has_means_ranges_intervals_and_costs(on_frame):
    rows = {row["method"]: row for row in on_frame.rows()}
    for name, row in rows.items():
        result, to = on_frame[name], on_frame.difference(name)
        assert (row["error"], row["least"], row["largest"]) == (result.error, min(result.errors), max(result.errors))
        assert (row["difference"], row["difference_low"], row["difference_high"]) == to
        assert (row["epsilon"], row["messages"], row["seeds"]) == (result.epsilon, result.messages, 3)
        low, mean, high = (f"{value:+.4f}" for value in (to.low, to.mean, to.high))
        if name != "mine":
            assert f"| {name} | {result.error:.4f} | " in on_frame.markdown()
            assert f" | {mean} | {low} to {high} | " in on_frame.markdown()
    assert rows["mine"]["difference"] == 0 < rows["majority"]["difference"]
    assert on_frame.against("majority").difference("mine").mean == -rows["majority"]["difference"]


def test_a_frame_of_the_library_that_is_there(on_frame, monkeypatch):
    assert list(on_frame.frame()["method"]) == on_frame.names
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(on_frame.frame()).__module__.startswith("polars")


def test_it_fits_a_terminal_and_says_that_it_is_not_private(on_frame, on_problem, problem):
    named = Contender("a name that is far too long for a terminal", ConsensusADMM(penalty=1.0), rounds=3)
    long = compare([named, "pvp", "shared-descent"], problem, RING, epsilon=EPSILON, delta=DELTA, seeds=3)
    for found in (on_frame, on_problem, long):
        text = str(found)
        assert max(map(len, text.splitlines())) <= 80
        assert "range" in text.splitlines()[0]
        assert "95% interval" in text.splitlines()[0]
        assert "Nothing of this is private" in text
        assert "Nothing of this is private" in found._repr_html_()
    one = compare(["admm"], problem, RING, seeds=1)
    assert "Over 1 seed;" in str(one)


def test_latex_is_escaped(problem):
    odd = [Contender(r"50%_\a|b", ConsensusADMM(penalty=1.0), rounds=9), "admm"]
    found = compare(odd, problem, RING, seeds=2)
    lines = found.latex().splitlines()
    assert (lines[0], lines[-1]) == (r"\begin{tabular}{lrrrrrr}", r"\end{tabular}")
    assert lines[4].startswith(r"50\%\_\textbackslash{}a|b & ")
    assert {line.count(" & ") for line in lines if line.endswith(r"\\")} == {6}
    assert " & $-$" in lines[5]  # a minus, not a hyphen
    assert r"50%_\a\|b" in found.markdown()


def test_a_picture_stands_alone(on_frame, tmp_path):
    from xml.etree import ElementTree

    on_frame.plot(tmp_path / "found.svg")
    drawn = ElementTree.parse(tmp_path / "found.svg")
    assert {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")} >= {"mine", "mr-admm"}
    assert drawn.find("{http://www.w3.org/2000/svg}style") is not None
    with pytest.raises(InputError, match="SVG file"):
        on_frame.plot(tmp_path / "found.png")


def test_methods_that_cannot_run_are_named(problem, frame):
    star = Graph.star(3)  # no cycle for a token
    found = compare(["pvp", "pi-admm", "i-admm"], problem, star, epsilon=EPSILON, delta=DELTA, seeds=1)
    assert (found.names, found.left_out) == (["pvp"], ("pi-admm", "i-admm"))
    assert "pi-admm, i-admm" in str(found)
    wards = Schema(
        label=Multiclass("hospital", classes=("alder", "birch", "cedar")), columns=SCHEMA.columns[:1], row_norm=1.0
    )
    settings = {"schema": wards, "epsilon": EPSILON, "delta": DELTA, "seeds": 1}
    found = compare(["token-gd", "mr-admm", MINE], frame, RING, **settings)
    assert (found.names, found.left_out) == (["mr-admm", "mine"], ("token-gd",))


def test_a_name_that_is_private_and_exact_follows_the_budget(problem):
    assert not compare(["token-gd"], problem, RING, seeds=1)["token-gd"].private
    assert compare(["token-gd"], problem, RING, epsilon=EPSILON, delta=DELTA, seeds=1)["token-gd"].private


def test_colluders_can_be_chosen(problem):
    settings = {"epsilon": EPSILON, "delta": DELTA, "seeds": 1}
    found = compare(["shared-descent"], problem, reserves=[Reserve(0), Reserve(1)], **settings)
    assert found.names == ["shared-descent:0", "shared-descent:1"]
    assert found["shared-descent:1"].colluders == 1


def test_a_run_as_data_on_a_problem(problem):
    """It has the check of every other run; what a problem cannot have is not left out in silence."""
    total = Budget(EPSILON, DELTA)
    spec = RunSpec(PrimalPerturbedADMM(budget=Gaussian(20.0)), 3, HuberHinge(0.5), RING, l2=0.1, budget=total)
    found = compare([spec, "admm"], problem, RING, seeds=1)
    (mine,) = (result for result in found.results if result.name != "admm")
    assert mine.name == f"pvp {spec.digest[:8]}"
    assert 0 < mine.epsilon <= EPSILON
    for change, why in (
        ({"method": PrimalPerturbedADMM(budget=Gaussian(0.1))}, "the run costs epsilon"),
        ({"trust": Trust(robust="clipping")}, "compared on records, not on a Problem"),
        ({"count": True}, "compared on records, not on a Problem"),
    ):
        with pytest.raises(InputError, match=why):
            compare([replace(spec, **change)], problem, RING, seeds=1)


@pytest.mark.parametrize(
    ("methods", "change", "why"),
    [
        ([], {}, "one at least"),
        ("pvp", {}, "a list of methods"),
        (["pvp", "pvp"], {}, "'pvp' is there twice"),
        (["pvp"], {"epsilon": None}, "pvp is private: give epsilon"),
        ([MINE], {"epsilon": None}, "mine is made for a budget"),
        (["magic"], {}, "no method 'magic'"),
        (["central"], {}, "no method 'central' to compare here"),
        (["dp-admm"], {}, "one holder of all records"),
        ([ConsensusADMM(penalty=1.0)], {}, "a name, a RunSpec, or a tacit.Contender"),
        ([Contender("pvp", at_budget, rounds=3)], {}, "name of a built-in method"),
        (["pvp"], {"schema": SCHEMA}, "leave out schema"),
        (["pvp"], {"seeds": 0}, "seeds"),
        (None, {}, "name the methods"),
    ],
)
def test_what_makes_no_sense_is_refused(problem, methods, change, why):
    with pytest.raises(InputError, match=why):
        compare(methods, problem, RING, **{"epsilon": EPSILON, "delta": DELTA, "seeds": 1} | change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": None}, "need a schema"),
        ({"divide": "town"}, "town"),
        ({"graph": Graph.ring(4)}, "graph has 4 agents, and the records are divided among 3"),
    ],
)
def test_records_that_do_not_fit_are_refused(frame, change, why):
    settings = {"schema": SCHEMA, "divide": "hospital", "epsilon": EPSILON, "delta": DELTA} | change
    with pytest.raises(InputError, match=why):
        compare(["pvp"], frame, **settings)


@pytest.mark.parametrize("algorithm", [ConsensusADMM, "pvp", 3])
def test_a_contender_is_an_instance_or_a_function(algorithm):
    with pytest.raises(InputError, match="an instance of a method, or a function"):
        Contender("mine", algorithm, rounds=3)
