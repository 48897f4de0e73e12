"""What is heard is bounded, and robust listening limits what a member that lies can do to the others."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import make_parts
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tacit
from tacit.core.constants import LARGEST_RADIUS
from tacit.core.release import Inbox, clipped
from tacit.exchange import SecretSharedSums
from tacit.exchange.listening import ROBUST, Listening
from tacit.exchange.secret_shared import SummedInbox
from tacit.lab.comparison.trials import Trial, run_setting
from tacit.run.budget import Budget
from tacit.run.exact import RADIUS as EXACT_RADIUS
from tacit.run.recipes import RECIPES
from tacit.run.trust import Trust
from tacit.simulation.hostile import KINDS, Hostile

finite = st.floats(allow_nan=False, allow_infinity=False)
COMPLETE = tacit.Graph.complete(5)


@settings(max_examples=200, deadline=None)
@given(arrays(float, (3, 4), elements=finite), st.floats(1e-3, 1e9))
def test_what_is_heard_lies_within_the_radius(rows, radius):
    heard = clipped(rows, radius)
    assert np.all(np.linalg.norm(heard, axis=1) <= radius * (1 + 1e-12))
    for before, after in zip(rows, heard, strict=True):
        if math.hypot(*before) < radius * (1 - 1e-9):
            np.testing.assert_array_equal(before, after)  # no bit changes
    np.testing.assert_allclose(clipped(heard, radius), heard, rtol=1e-12)
    total = SummedInbox(rows, np.full((3, 1), 2)).within(radius)
    assert np.all(np.linalg.norm(total.sum(), axis=1) <= 2 * radius * (1 + 1e-12))


@pytest.mark.parametrize("private", [True, False])
def test_a_simulation_reads_private_messages_within_the_radius_and_exact_ones_as_they_are(private, monkeypatch):
    """The noise alone goes far beyond this radius."""
    heard, listen = [], tacit.algorithms.RecycledADMM.listen

    def listened(self, state, inbox, view, t):
        heard.extend(np.linalg.norm(inbox.rows, axis=1))
        return listen(self, state, inbox, view, t)

    monkeypatch.setattr(tacit.algorithms.RecycledADMM, "listen", listened)
    problem = tacit.Problem(make_parts(), l2=0.5, radius=1e-3)
    method = tacit.algorithms.RecycledADMM(budget=tacit.Gaussian(100.0) if private else None)
    tacit.simulate(method, problem, COMPLETE, rounds=4, noise=tacit.SeededNoise(0) if private else None)
    assert heard
    assert (max(heard) <= 1e-3 * (1 + 1e-12)) == private


@pytest.mark.parametrize("robust", [None, *ROBUST])
@pytest.mark.parametrize("size", [3.0, 1e3, 1e300])
def test_whatever_is_said_is_read_within_the_radius(robust, size):
    """At every tick, with the model far from what is said or near it; and how far a row was moved is told."""
    listening, rng = Listening(2.0, robust), np.random.default_rng(0)
    for t in range(8):
        said = rng.normal(size=(4, 3))
        said[0] *= size / np.linalg.norm(said[0])
        found = listening.read(Inbox(said, [0, 4]), rng.normal(size=(1, 3)) / 10, t)
        assert np.all(np.linalg.norm(found.inbox.rows, axis=1) <= 2.0 * (1 + 1e-12))
        assert found.moved[0] >= (size - 2.0) * (1 - 1e-12)


@pytest.mark.parametrize("robust", ROBUST)
def test_whoever_agrees_is_heard_as_it_is(robust):
    """Everybody says the same as the listener: then nothing is moved, whatever was said before."""
    listening, rng = Listening(100.0, robust), np.random.default_rng(0)
    for _ in range(5):
        own = rng.normal(size=(1, 3))
        found = listening.read(Inbox(np.repeat(own, 4, axis=0), [0, 4]), own, 0)
        np.testing.assert_allclose(found.inbox.rows, np.repeat(own, 4, axis=0), atol=1e-12)
        np.testing.assert_allclose(found.moved, 0, atol=1e-12)


@pytest.mark.parametrize("robust", ROBUST)
@pytest.mark.parametrize("size", [10.0, 1e3, 1e300])
def test_one_liar_of_four_moves_what_is_believed_by_no_more_than_the_honest_lie_apart(robust, size):
    rng, d, ticks = np.random.default_rng(1), 6, 50
    listening = Listening(64.0, robust)
    believed, honest = np.zeros((4, d)), np.zeros((3, d))
    for _ in range(ticks):
        own = rng.normal(size=(1, d))
        said = np.vstack([rng.normal(size=(3, d)), np.full((1, d), size)])
        believed += listening.read(Inbox(said, [0, 4]), own, 0).inbox.rows - own
        honest += said[:3] - own
    farthest = np.linalg.norm(honest, axis=1).max()
    assert np.linalg.norm(believed[3]) <= farthest * (1 + 1e-9)
    in_the_open = ticks * min(size * np.sqrt(d), 64.0)
    assert in_the_open > 5 * farthest  # what it would be without


@pytest.mark.parametrize("robust", ROBUST)
def test_robust_runs_stop_save_and_resume_without_a_difference(robust, tmp_path):
    problem = tacit.Problem(make_parts(), scale=3.0, l2=0.5)
    method, noise = tacit.algorithms.RecycledADMM(budget=tacit.Gaussian(5.0)), tacit.SeededNoise(3)
    whole = tacit.simulate(method, problem, COMPLETE, rounds=8, noise=noise, robust=robust)
    tacit.simulate(method, problem, COMPLETE, rounds=3, noise=noise, robust=robust).save(tmp_path / "run.npz")
    half = tacit.Run.load(tmp_path / "run.npz")
    again = tacit.simulate(method, problem, COMPLETE, rounds=8, noise=noise, robust=robust, resume=half)
    np.testing.assert_array_equal(again.estimate, whole.estimate)
    assert np.abs(whole.estimate - tacit.simulate(method, problem, COMPLETE, rounds=8, noise=noise).estimate).max() > 0
    with pytest.raises(tacit.InputError, match="another robust"):
        tacit.simulate(method, problem, COMPLETE, rounds=8, noise=noise, resume=half)


def test_exact_members_that_listen_robustly_still_agree_on_the_optimum():
    problem = tacit.Problem(make_parts(), scale=3.0, l2=0.5)
    method = tacit.algorithms.ConsensusADMM()
    run = tacit.simulate(method, problem, COMPLETE, rounds=2000, robust="clipping")
    spread = np.linalg.norm(run.estimate - run.model, axis=1).max()
    assert spread < 1e-6


def test_what_cannot_listen_robustly_says_so():
    problem, noise = tacit.Problem(make_parts(), l2=0.5), tacit.SeededNoise(0)
    gauss = tacit.Gaussian(5.0)
    for method, graph, options, match in (
        (tacit.algorithms.RecycledADMM(budget=gauss), COMPLETE, {"robust": "mean"}, "robust is one of"),
        (
            tacit.algorithms.RecycledADMM(budget=gauss),
            tacit.Graph.star(5),
            {"robust": "median"},
            "2 neighbours or more",
        ),
        (tacit.algorithms.IncrementalADMM(budget=gauss), COMPLETE, {"robust": "median"}, "compares rows"),
        (
            tacit.algorithms.RecycledADMM(budget=gauss),
            COMPLETE,
            {"robust": "median", "exchange": SecretSharedSums()},
            "compares rows",
        ),
    ):
        with pytest.raises(tacit.InputError, match=match):
            tacit.simulate(method, problem, graph, rounds=2, noise=noise, **options)


@pytest.mark.parametrize(
    "text", ["flip", "flip:", "flip:0", "flip:5", "lie:1", "flip:-1", "flip:1.5", ":1", "flip:٣", "flip:²"]
)
def test_an_attack_that_is_none_is_refused(text):
    with pytest.raises(tacit.InputError, match="hostile is KIND:COUNT"):
        Hostile.parse(text, agents=5)


EXACT = {
    "admm": tacit.algorithms.ConsensusADMM(penalty=1e-3),
    "i-admm": tacit.algorithms.IncrementalADMM(penalty=0.05),
    "c-admm": tacit.algorithms.CensoredADMM(penalty=1e-3),
    "w-admm": tacit.algorithms.ParallelWalkADMM(tokens=2, penalty=0.05),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("radius", [EXACT_RADIUS, LARGEST_RADIUS])
def test_no_number_ends_an_exact_run(name, radius):
    """Members say the largest numbers that there are, at any tick: every honest step is done, and is finite."""
    rng, largest = np.random.default_rng(1), np.finfo(float).max
    problem = tacit.Problem([_rows(rng, 100) for _ in range(5)], l2=3e-5, radius=radius)

    class Shouting(Hostile):
        def open(self, graph):
            link = super().open(graph)
            link._said = lambda own, t: largest * rng.choice([-1.0, 0.0, 1e-300, 1e-8, 1.0], size=own.shape)
            return link

    liars = Shouting("flip", (2,), 5, radius)
    run = tacit.simulate(EXACT[name], problem, COMPLETE, rounds=25, exchange=liars)
    assert np.isfinite(run.estimate).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", EXACT)
def test_no_attack_ends_an_exact_run(kind, name):
    """A liar whose answers grow with the effect of its own lies, until they leave the range of numbers."""
    rng = np.random.default_rng(1)
    problem = tacit.Problem([_rows(rng, 100) for _ in range(5)], l2=3e-5)
    liars = replace(Hostile.parse(f"{kind}:1", agents=5), radius=2.0**12)
    run = tacit.simulate(EXACT[name], problem, COMPLETE, rounds=700, measure_every=100, exchange=liars)
    assert np.isfinite(run.estimate).all()


def _rows(rng, n):
    X = np.hstack([rng.uniform(-1, 1, size=(n, 5)), np.ones((n, 1))]) / np.sqrt(6)
    return X, np.sign(X @ [4.0, -3.0, 2.0, 0.0, 1.0, 0.0] + 0.3 * rng.normal(size=n))


@pytest.fixture(scope="module")
def trial():
    rng = np.random.default_rng(0)
    X, y = _rows(rng, 3000)
    test = tacit.data.Dataset(X, y, tuple("abcdef"), np.arange(3000))
    label = tacit.data.Classes("ill", positive=("yes",), negative=("no",))
    schema = tacit.data.Schema(label=label, columns=tuple(tacit.data.Number(name, bounds=(-1, 1)) for name in "abcdef"))
    return Trial([_rows(rng, 1500) for _ in range(5)], test, schema, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_liar_spoils_the_model_and_robust_members_hardly_notice(kind, trial):
    """With seeded noise: honest members, each with its own model; the optimum has an error of 0.064."""
    robustly = Trust(robust="clipping")
    setting = RECIPES["mr-admm"].setting(trial.sizes, 6, COMPLETE, Budget(1.0, 1e-5), robustly)

    def error(robust, hostile):
        heard = replace(setting, spec=replace(setting.spec, trust=Trust(robust=robust)))  # the same noise, and no mean
        models = run_setting(trial, heard, delta=1e-5, hostile=hostile, members=True).models
        return np.mean([model.measured(trial.test).error for model in models])

    undisturbed = error(None, None)
    assert error("clipping", None) <= undisturbed + 0.01
    assert error("clipping", f"{kind}:1") <= undisturbed + 0.03
    if kind != "labels":  # false labels in a fifth of the records do little harm by themselves
        assert error(None, f"{kind}:1") > undisturbed + 0.04


def test_a_simulated_attack_is_marked_as_one(tacit, tmp_path):
    options = ["--graph", "complete", "--epsilon", 1, "--robust", "clipping", "--hostile", "constant:1"]
    code, out, err = tacit("train", "adult", *options, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["robust"] == "clipping"
    assert found["simulated_attack"]["kind"] == "constant"
    model = json.loads((tmp_path / found["model"]).read_text())
    assert "a simulation of an attack" in model["training"]["simulated attack"]
    assert found["error"] < 0.2
    for wrong, match in (
        (["--robust", "mean"], "robust is one of clipping, trimmed, median"),
        (["--hostile", "flip"], "hostile is KIND:COUNT"),
        (["--robust", "median", "--graph", "path"], "robust listening needs 2 neighbours"),
    ):
        code, _, err = tacit("train", "adult", "--epsilon", 1, "--out", "wrong.json", *wrong)
        assert code == 2
        assert match in err
        code, _, err = tacit("compare", "--seeds", 1, *wrong)
        assert code == 2
        assert match in err


@pytest.mark.parametrize("robust", ROBUST)
def test_at_no_tick_is_anybody_farther_away_than_the_median_neighbour(robust):
    """Whatever was said before: a liar gets no credit for having agreed so far."""
    rng, reading = np.random.default_rng(2), Listening(64.0, robust)
    for t in range(40):
        own = rng.normal(size=(1, 6))
        lie = rng.normal(size=(1, 6)) * 10.0 ** rng.integers(-3, 4) if t % 7 else own
        said = np.vstack([own + rng.normal(size=(4, 6)), lie])
        found = reading.read(Inbox(said, [0, 5]), own, t).inbox.rows
        farthest = np.sort(np.linalg.norm(said - own, axis=1))[2]
        assert np.linalg.norm(found - own, axis=1).max() <= farthest * (1 + 1e-9)


def test_what_is_said_at_one_tick_of_an_iteration_is_not_taken_back_at_another():
    """A liar leans to one side at even ticks and to the other at odd ones: with one sum for both it is believed."""
    rng = np.random.default_rng(3)
    reading = {period: Listening(64.0, "clipping", period) for period in (1, 2)}
    believed = {period: np.zeros(6) for period in reading}
    for t in range(60):
        own, lean = rng.normal(size=(1, 6)), np.full((1, 6), 3.0 if t % 2 else -3.0)
        said = np.vstack([rng.normal(size=(4, 6)), own + lean])
        for period, each in reading.items():
            believed[period] += (each.read(Inbox(said, [0, 5]), own, t).inbox.rows[4] - own[0]) * (t % 2)
    assert np.linalg.norm(believed[2]) < 0.5 * np.linalg.norm(believed[1])
