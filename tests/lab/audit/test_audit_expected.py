"""An audit also fails if its guesses are wrong more often than those of correct code: once in a thousand audits of
correct code, and always where noise or a sample is reused. Seeds are fixed."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from tacit.errors import InputError
from tacit.lab.audit import Discriminant, audit_run, audit_shared
from tacit.lab.audit.expected import FALSE_ALARM, most_wrong
from tacit.lab.audit.named import audit_named, recipe_case, sampled_case
from tacit.privacy.events import SampledGaussian
from tacit.privacy.noise import SecureNoise, SeededNoise
from tacit.privacy.plan import plan


@pytest.mark.parametrize(("mu", "numbers"), [(1.0, 1), (1.0, 2), (0.5, 20), (2.0, 8)])
def test_errors_of_correct_code_exceed_the_limit_once_in_a_thousand(mu, numbers):
    """300 audits of a known mu, with the real discriminant: false alarm 1e-6. With three quarters of mu, most of 100
    audits exceed it: so a limit that is merely high would fail. (With 20 numbers and so few pilot runs, fewer do.)"""
    rng, pilots, samples = np.random.default_rng(3), 250, 2000
    limit = most_wrong(mu, numbers, pilots, samples)

    def exceeds(apart):
        shift = np.zeros(numbers)
        shift[0] = apart
        runs = [rng.standard_normal((pilots + samples, numbers)) + shift * (which == 0) for which in (0, 1)]
        guess = Discriminant.fitted(*(each[:pilots] for each in runs))
        first, second = (guess.score(each[pilots:]) for each in runs)
        return (first <= 0).sum() + (second > 0).sum() > limit

    assert sum(exceeds(mu) for _ in range(300)) <= binom.isf(1e-6, 300, FALSE_ALARM)
    assert sum(exceeds(0.75 * mu) for _ in range(100)) > (50 if numbers < 20 else 3)


class ReusedNoise(SecureNoise):
    """A bug to catch: what is drawn first is used in all rounds."""

    def _rounded(self, law, value, base, scale, step):
        zero = np.zeros_like(value)
        drawn = vars(self).setdefault("drawn", super()._rounded(law, zero, zero, scale, step))
        return base + value + drawn


class ReusedSample(SecureNoise):
    """A bug to catch: the first sample is that of all rounds."""

    def choose(self, rate, count, ids, t):
        return vars(self).setdefault("chosen", super().choose(rate, count, ids, t))


@pytest.mark.parametrize("steer", [False, True])
def test_noise_that_is_reused_tells_too_little_unless_the_others_steer(steer):
    case = recipe_case("gradient-descent", 4.0, rounds=4, steer=steer)
    shipped, reused = (audit_run(case, samples=1000, source=source) for source in (SecureNoise, ReusedNoise))
    assert not shipped.failed
    assert shipped.lower > shipped.least > 0.5
    assert reused.failed
    assert (reused.caught, reused.short) == (steer, not steer)


@pytest.mark.parametrize(("steer", "caught"), [(False, False), (True, True)])
def test_shares_that_are_reused(steer, caught):
    """The bound is *lower* than that of correct code, so that without a coalition that moves the total only `short`
    sees it."""
    shipped = audit_shared(4.0, steer=steer, samples=1000, secure=False)
    assert not shipped.failed
    assert shipped.lower > shipped.least > 0.9
    reused = audit_shared(4.0, steer=steer, bug="reuse", samples=1000)
    assert (reused.caught, reused.short) == (caught, not caught)
    assert not caught or reused.lower > 5 * reused.claimed


def test_the_coalition_steers_within_what_honest_rows_could_be():
    """The model is where the coalition wants it, and no total is larger than five honest members could make it."""
    from dataclasses import replace

    from tacit.lab.audit.shared import _AWAY, _PUSH, SideBySide, _calibrated

    half = 32
    algorithm = replace(_calibrated(4.0, 5, 2, rows=2 * half, rounds=4), step=-_AWAY * 5 / (0.5 + _PUSH), momentum=0.0)
    for which in (0, 1):
        runs = SideBySide(5, 2, half, size=200, rounds=4, steer=True)
        seen = runs.seen(algorithm, SeededNoise(1), which, 0)
        assert np.all(np.abs(runs.models - _AWAY) < 1.0)
        assert np.all(np.abs(seen) < 1.5)  # of member 0, without what the coalition added
        mean = seen.mean(axis=0)
        first, second = (0.5 - 1 / (2 * half), -1 / (2 * half)) if which == 0 else (0.5 + 1 / (2 * half), 0.0)
        np.testing.assert_allclose(mean, [first] * 2 + [second + 5e-3 * _AWAY] * 2, atol=0.03)
    assert _PUSH + 0.5 <= 2


def test_refusals_of_steering():
    for settings in ({"colluders": 0}, {"rounds": 1}):
        with pytest.raises(InputError, match="to steer takes a colluder"):
            audit_shared(4.0, steer=True, **settings)
    with pytest.raises(InputError, match="without --steer"):
        audit_shared(4.0, steer=True, bug="rounding")
    with pytest.raises(InputError, match="steering needs"):
        audit_shared(0.001, steer=True)


def test_a_sampled_run_costs_its_claim():
    case = sampled_case("dp-accadmm", 2.0, 1e-5, rate=0.1, rounds=8)
    found = plan(case.algorithm, case.facts, case.graph, case.ticks)
    assert {(type(e), e.rate) for e in found.events[0]} == {(SampledGaussian, 0.1)}
    assert len(found.events[0]) == 8
    assert 0.99 * 2.0 < found.epsilon(1e-5) <= 2.0


def test_a_sample_that_is_reused_tells_too_little():
    """At a rate of 1/10 a record joins all of 16 rounds or none: 9 of 10 runs say nothing at all."""
    case = sampled_case("dp-admm", 4.0, 1e-5, rate=0.1, rounds=16)
    shipped, reused = (audit_run(case, samples=1000, source=source) for source in (SecureNoise, ReusedSample))
    assert not shipped.failed
    assert shipped.gaussian is None
    assert reused.short


@pytest.mark.slow
def test_a_sample_that_is_reused_makes_the_claim_false():
    """By the bound that assumes nothing: in 1 of 20 runs the record shows in all rounds."""
    reused = audit_run(sampled_case("dp-admm", 2.0, 1e-5, rate=0.05, rounds=64), samples=5000, source=ReusedSample)
    assert reused.caught
    assert reused.short


def test_tacit_audit_says_that_something_is_wrong(tacit):
    options = ("shared-descent", "--epsilon", "4", "--samples", "1000", "--bug", "reuse")
    code, out, _ = tacit("audit", *options)
    assert code == 1
    assert "not caught; but something is wrong: correct code shows" in " ".join(out.split())
    code, out, _ = tacit("audit", *options, "--steer", "--json")
    found = json.loads(out)
    assert (code, found["caught"], found["short"]) == (1, True, False)
    assert found["wrong"] < found["most_wrong"] < 0.5
    assert found["least"] < found["claim"] < found["lower_bound"]
    code, _, err = tacit("audit", "dp-admm", "--rounds", "3")
    assert code == 2
    assert "--rounds goes with --rate" in err
    for rate in ("0", "1"):
        code, _, err = tacit("audit", "dp-admm", "--rate", rate)
        assert (code, f"between 0 and 1, not {rate}" in err) == (2, True), err
    assert tacit("audit", "pvp", "--rate", "0.5")[::2] == (2, "tacit: error: the audit pvp has no --rate\n")
    code, out, _ = tacit("audit", "dp-admm", "--rate", "0.1", "--rounds", "4", "--samples", "1000", "--json")
    assert (code, json.loads(out)["gaussian"]) == (0, None)


def test_every_audit_of_a_method_knows_what_correct_code_shows():
    for name in ("rcd", "ra-gd", "mr-admm", "one-shot"):
        assert audit_named(name, 4.0, samples=1000).most_wrong is not None
