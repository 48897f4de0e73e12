"""Audits: the agent that is audited is the one of a run, the statistic finds what there is to find, and each audit
passes what ships and catches a bug. `test_planted_bugs.py` has bugs in the sources.

The false-alarm rate of every "not caught" is one in a thousand by the confidence of the bound; the seeds are fixed.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

import tacit
from tacit.errors import InputError
from tacit.lab.audit import (
    Discriminant,
    audit,
    audit_solver,
    audit_transcripts,
    epsilon_lower_bound,
    mu_lower_bound,
)
from tacit.lab.audit.named import ALIASES, AUDITS, audit_named, recipe_case
from tacit.lab.audit.runs import audit_run
from tacit.lab.audit.steps import Unmasked
from tacit.privacy.formulas.closed_forms import gaussian_epsilon
from tacit.privacy.noise import SeededNoise
from tacit.privacy.plan import plan
from tacit.run.recipes import RECIPES

LOCAL = [name for name, recipe in RECIPES.items() if not recipe.traits.totals]


@pytest.mark.parametrize("name", LOCAL)
def test_the_audited_agent_is_that_of_simulate_to_the_last_bit(name):
    """Agent 0 of a simulation, with what its neighbour really said; then two copies, each with its own noise."""
    case = recipe_case(name, 1.0, rounds=2)
    none = np.zeros((2, 2)), np.ones(2)
    for which in (0, 1):
        problem = tacit.Problem(
            [(case.rows[which], np.ones(2)), none][: case.graph.agents],
            loss=case.facts.loss,
            scale=case.facts.scale,
            l2=case.facts.l2,
            radius=case.facts.radius,
        )
        own, said = [], np.zeros((case.ticks, case.graph.agents - 1, 2))

        def overheard(t, turn, release, own=own, said=said):
            for speaker, row in zip(turn.speakers, release.value, strict=True):
                if speaker == 0:
                    own.append(row)
                else:
                    said[t, 0] = row

        tacit.simulate(
            case.algorithm, problem, case.graph, rounds=case.ticks, noise=SeededNoise(3), overheard=overheard
        )
        two = replace(case, said=said).transcripts(case.problem(which, 2), SeededNoise(3))
        plain = np.concatenate(own)
        np.testing.assert_array_equal(two[0, : len(plain)], plain)
        # But for coordinates that nobody has visited yet, and what the other agent handed on to both.
        differ = two[0] != two[1]
        assert np.mean(differ) > 0.6 if name in ("rcd", "token-gd") else np.all(differ)


@pytest.mark.parametrize("name", LOCAL)
def test_one_record_moves_a_gradient_by_all_that_its_sensitivity_allows(name):
    """At every model that a run reaches; and the run claims what it was calibrated to."""
    case = recipe_case(name, 2.0, delta=1e-6, rounds=3)
    at = np.array([[3.0, -20.0], [-20.0, 4.0]])
    moved = np.linalg.norm(np.subtract(*(case.problem(which, 2).data_gradient(at) for which in (0, 1))), axis=1)
    weight = case.facts.row_weight[0, 0]
    np.testing.assert_allclose(moved, 2 * case.facts.loss.max_slope * weight, rtol=1e-12)
    assert 0.99 * 2.0 < plan(case.algorithm, case.facts, case.graph, case.ticks).epsilon(1e-6) <= 2.0
    noisy = sum(type(e).__name__ != "Free" for e in plan(case.algorithm, case.facts, case.graph, case.ticks).events[0])
    assert RECIPES[name].traits.alone or noisy == (
        1 if name == "one-shot" else 3
    )  # one holder of all records stops by itself


@pytest.mark.parametrize(
    ("name", "epsilon", "rounds", "share"),
    [
        ("pvp", 1.0, 8, 1.0),
        ("mr-admm", 4.0, 1, 0.91),
        ("mr-admm", 4.0, 8, 0.91),
        ("one-shot", 4.0, 1, 0.84),
        ("one-shot", 1.0, 1, 0.79),
    ],
)
def test_how_much_of_a_claim_an_audit_can_show(name, epsilon, rounds, share):
    """What the noise alone would cost, as a Gaussian mechanism: docs/evidence/audits.md says so."""
    case = recipe_case(name, epsilon, rounds=rounds)
    events = plan(case.algorithm, case.facts, case.graph, case.ticks).events[0]
    mu = math.sqrt(sum(e.multiplier**-2 for e in events if hasattr(e, "multiplier")))
    assert gaussian_epsilon(1 / mu, case.delta) / epsilon == pytest.approx(share, abs=0.006)


def normal_pair(mu, leak, rng):
    """Two numbers that differ by mu in all, their sum up to a mask of 1e-9, in which `leak` masks are hidden."""

    def transcripts(which, batch):
        z = rng.standard_normal((500, 2)) + (mu / math.sqrt(2) if which == 0 else 0.0)
        mask = rng.standard_normal(500) - (leak if which == 0 else 0.0)
        return np.column_stack([z, z.sum(axis=1) + 1e-9 * mask, np.ones(500)])

    return transcripts


def test_the_discriminant_finds_all_of_a_gaussian_mechanism_and_no_more():
    """15 audits of a known mu, false alarms by binomial tails: 1e-6. Most of the claim is found."""
    mu, rng = 1.0, np.random.default_rng(0)
    claim = gaussian_epsilon(1 / mu, 1e-5)
    effort = {"size": 500, "epsilon": claim, "delta": 1e-5, "samples": 4000}
    found = [audit_transcripts(normal_pair(mu, 0.0, rng), **effort) for _ in range(15)]
    assert sum(each.caught for each in found) <= binom.isf(1e-6, 15, 0.001)
    assert min(each.ratio for each in found) > 0.8
    assert all(each.gaussian == each.lower > each.distribution_free > 0 for each in found)
    assert audit_transcripts(normal_pair(mu, 2.0, rng), **effort).caught  # a leak of two masks: mu is sqrt(5)


def test_numbers_that_never_change_and_a_release_without_noise():
    a, b = np.zeros((50, 2)), np.tile([0.0, 1.0], (50, 1))
    apart = Discriminant.fitted(a, b)
    assert apart.score(a).min() > 0 > apart.score(b).max()
    assert np.all(Discriminant.fitted(a, a).score(b) == 0)


def test_the_distribution_free_bound_of_laplace_noise():
    """A pure claim has no mu: the event alone shows most of it, and twice the noise of half the claim is caught."""
    rng = np.random.default_rng(1)

    def transcripts(which, batch):
        return rng.laplace(size=(1000, 1)) + (1.0 if which == 0 else 0.0)

    found, false = (
        audit_transcripts(transcripts, size=1000, epsilon=claim, delta=0.0, samples=20_000) for claim in (1.0, 0.7)
    )
    assert not found.caught
    assert found.ratio > 0.85
    assert found.gaussian is None
    assert false.caught


def test_an_audit_counts_no_run_that_has_chosen_its_event():
    """The runs say here from which batch they are."""
    found = audit(lambda which, batch: batch + np.linspace(0, 0.9, 10) + which / 100, 1.0, 20)
    counted = {int(x) for x in np.concatenate(found.scores)}
    assert counted == set(range(4, 20))
    assert found.samples == 160


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_bounds_of_an_audit_share_the_probability_of_being_wrong(delta):
    """With a delta there are two bounds, and one of them may not be wrong with all of it."""
    draw = normal_pair(1.0, 0.0, np.random.default_rng(4))
    found = audit_transcripts(draw, size=500, epsilon=4.0, delta=delta, samples=4000)
    first, second = (-x if found.negated else x for x in found.scores)
    hits, others = (int((x > found.threshold).sum()) for x in (first, second))
    confidence = 1 - (1 - found.confidence) / (2 if delta else 1)
    assert found.distribution_free == epsilon_lower_bound(hits, others, found.samples, delta, confidence)
    if delta:
        mu = mu_lower_bound(round(found.wrong * 2 * found.samples), 2 * found.samples, confidence)
        assert found.gaussian == pytest.approx(gaussian_epsilon(1 / mu, delta), rel=1e-12)


@pytest.mark.parametrize(("name", "rounds", "samples"), [("mr-admm", 1, 1500), ("pi-admm", 3, 1000)])
def test_the_audit_passes_what_ships_and_catches_half_the_noise(name, rounds, samples):
    shipped, halved = (
        audit_named(name, 4.0, rounds=rounds, samples=samples, planted=planted) for planted in (False, True)
    )
    assert not shipped.caught
    assert shipped.ratio > 0.5
    assert halved.caught
    assert halved.ratio > 1.3


def test_the_last_digits_of_a_minimiser_are_hidden_by_its_mask_alone():
    """The same run without its mask: the data set shows in every run."""
    case = recipe_case("mr-admm", 1.0, rounds=1)
    found = audit_run(case, samples=1000, source=Unmasked)
    assert found.caught
    assert found.lower > 5.0
    assert not audit_run(case, samples=1000).caught


def test_the_audit_of_a_papers_own_noise():
    """Of primal perturbation; `test_dual_perturbed_admm.py` has dual perturbation."""
    shipped, halved = (audit_named("pvp-paper", 1.0, samples=1000, planted=planted) for planted in (False, True))
    assert not shipped.caught
    assert shipped.ratio > 0.4
    assert halved.caught


def test_names_of_the_last_version_still_work():
    import tacit.lab.audit as module

    for name in ("audit_gaussian", "audit_token"):
        with pytest.warns(DeprecationWarning, match=f"{name} will go: take the command `tacit audit"):
            run = getattr(module, name)
        found = run(4.0, planted=True, samples=1000)
        assert found.caught
        assert found.delta == 1e-4
    with pytest.warns(DeprecationWarning, match="AUDITS will go"):
        assert set(module.AUDITS) == {"dvp", "dvp-gaussian", "pi-admm2", "solver", "shared-descent"}
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = module.nonsense


def test_the_audit_of_the_solver_needs_the_mask():
    assert not audit_solver(1.0, samples=2000, seed=1).caught
    bare = audit_solver(1.0, planted=True, samples=5000, seed=1)
    assert bare.caught
    assert bare.lower > 1.5


def test_the_bound_covers_a_known_epsilon_and_delta():
    """A Gaussian mechanism of multiplier 1: ln((P - delta)/P') of a tail, valid and near."""
    delta, threshold, samples = 0.01, 1.5, 400_000
    P, other = norm.sf(threshold - 1), norm.sf(threshold)
    truth = math.log((P - delta) / other)
    rng = np.random.default_rng(0)
    bounds = [epsilon_lower_bound(*rng.binomial(samples, [P, other]), samples, delta) for _ in range(100)]
    assert max(bounds) <= truth
    assert min(bounds) > 0.95 * truth
    assert epsilon_lower_bound(50, 0, 100_000, delta=0.01) == 0.0  # less than delta: nothing is shown


def test_minutes_decide_how_many_runs(monkeypatch):
    """By a clock that goes on a second with every batch of one data set."""
    clock = iter(range(1, 10**6))
    monkeypatch.setattr("tacit.lab.audit.guess.time.monotonic", lambda: now[0])
    now, rng = [0.0], np.random.default_rng(0)

    def transcripts(which, batch):
        now[0] = float(next(clock))
        return rng.standard_normal((500, 1))

    seen = []
    effort = {"size": 500, "epsilon": 1.0, "delta": 1e-5, "samples": 40_000}
    found = audit_transcripts(transcripts, minutes=5.0, progress=lambda *at: seen.append(at), **effort)
    assert seen[-1] == (150, 150)  # 300 s, two a batch
    assert found.samples == 500 * 120  # a fifth of the time went into pilot runs
    with pytest.raises(InputError, match="minutes"):
        audit_transcripts(transcripts, minutes=0.0, **effort)


def test_tacit_audit_of_all_kinds(tacit, tmp_path):
    def run(*args):
        code, out, err = tacit("audit", *args)
        return code, " ".join(out.split()), err

    code, out, err = run("pvp", "--rounds", "1", "--samples", "1000", "--plot", "pvp.png")
    assert code == 0
    assert "pvp: epsilon is at least" in out
    assert "1,000 runs under each data set); claimed 1 at delta 1e-05: not caught" in out
    assert (tmp_path / "pvp.png").stat().st_size > 5000
    assert "wrote pvp.png" in err
    code, out, err = run("dvp-gaussian", "--planted", "--epsilon", "4", "--rounds", "1", "--samples", "1000", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["caught"] is True
    assert found["claim"] == 4.0
    assert found["delta"] == 1e-5
    assert found["ratio"] == found["lower_bound"] / 4.0
    assert found["runs"] == found["samples"] == 1000
    assert "warning: the audit dvp-gaussian is now called dvp" in err
    code, out, _ = run("solver", "--planted", "--samples", "3000")
    assert code == 1
    assert "solver with a planted bug: epsilon is at least" in out
    assert "caught: the claim is false" in out
    assert run("solver", "--as-printed")[::2] == (2, "tacit: error: the audit solver has no --as-printed\n")
    assert run("pvp-paper", "--rounds", "2")[::2] == (2, "tacit: error: the audit pvp-paper has no --rounds\n")
    _, out, _ = tacit("audit", "--help")
    shown = "".join(out.replace("│", "").split())  # names may be broken at the end of a line
    assert all(name in shown for name in AUDITS)
    assert "--planted" in shown
    assert {name for name, recipe in RECIPES.items() if not recipe.traits.totals} < set(AUDITS)
    assert set(ALIASES.values()) < set(AUDITS)
    for name in (*AUDITS, *ALIASES):
        assert run(name, "--samples", "5")[0] == 2
    for option, value in (("--rounds", "0"), ("--delta", "2"), ("--epsilon", "-1"), ("--minutes", "-1")):
        assert run("pvp", option, value)[0] == 2
