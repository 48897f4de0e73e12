"""Audits of one release: each passes what ships and catches the bug that is planted in it.

The false-alarm rate of every "not caught" is one in a thousand by the confidence of the bound; the seeds are fixed.
"""

import json
import math

import numpy as np
from scipy.stats import norm

from tacit.privacy.audit import AUDITS, audit, audit_gaussian, audit_solver, epsilon_lower_bound
from tacit.privacy.audit.steps import _one_minimiser, _Unmasked
from tacit.privacy.noise import SeededNoise


def test_the_audit_of_the_solver_catches_a_sloppy_one():
    shipped, sloppy = (audit_solver(1.0, planted=planted, samples=100_000, seed=1) for planted in (False, True))
    assert not shipped.caught
    assert shipped.lower > 0.1  # it sees the two data sets apart
    assert sloppy.caught
    assert sloppy.lower > 4.0


def test_it_is_the_mask_that_protects_a_sloppy_solver():
    """The same early stop, with the mask that it costs: no more than it claims. Both flaws are needed to be caught."""
    for tolerance, noise in ((1e-2, SeededNoise(2)), (1e-9, _Unmasked(2))):
        assert not audit(_one_minimiser(1.0, tolerance, noise, 10_000), 1.0, batches=10).caught


def test_the_audit_of_normal_noise_catches_half_of_it():
    shipped, halved = (audit_gaussian(1.0, planted=planted, samples=100_000, seed=1) for planted in (False, True))
    assert shipped.delta == halved.delta == 1e-4
    assert not shipped.caught
    assert shipped.lower > 0.3
    assert halved.caught
    assert halved.lower > 1.2


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


def test_tacit_audit_of_all_kinds(tacit):
    def run(*args):
        code, out, err = tacit("audit", *args)
        return code, " ".join(out.split()), err

    code, out, _ = run("solver", "--planted", "--samples", "50000")
    assert code == 1
    assert "solver with a planted bug: epsilon is at least" in out
    assert "caught: the claim is false" in out
    code, out, _ = run("dvp-gaussian", "--samples", "50000")
    assert code == 0
    assert "claimed 1 at delta 0.0001: not caught" in out
    code, out, _ = run("dvp-gaussian", "--planted", "--samples", "50000", "--json")
    assert json.loads(out)["delta"] == 1e-4
    assert run("solver", "--as-printed")[::2] == (2, "tacit: error: the audit solver has no --as-printed\n")
    assert run("dvp", "--planted")[::2] == (2, "tacit: error: the audit dvp has no --planted\n")
    _, out, _ = run("--help")
    assert all(name in out for name in AUDITS)
    assert "--planted" in out
    for name in AUDITS:
        assert run(name, "--samples", "5")[0] == 2
