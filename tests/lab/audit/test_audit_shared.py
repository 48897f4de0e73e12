"""The audit of shared noise: sharp on what ships, and it catches the planted bugs.

By the confidence of the bound, a "not caught" is a false alarm once in a thousand; the seeds are fixed.
"""

import json

import numpy as np
import pytest
from scipy.stats import binom, norm

import tacit
from tacit.algorithms import SummedGradientDescent
from tacit.errors import TacitError
from tacit.exchange import IdealTotals, SecretSharedTotals
from tacit.lab.audit import audit_shared, mu_lower_bound
from tacit.lab.audit.shared import DELTA, ROUNDS, SideBySide, _calibrated
from tacit.privacy.noise import SecureNoise, SeededNoise
from tacit.privacy.plan import plan
from tacit.run.budget import Budget
from tacit.run.trust import Trust


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.3, 0.3), (0.05, 0.6), (0.0, 0.2)])
def test_the_bound_exceeds_the_truth_once_in_a_thousand(rates):
    """20,000 audits with known error rates under the two data sets: false alarm 1e-6. The best mu that such a guess
    can show is that of the mean rate."""
    samples, repeats, rng = 5000, 20_000, np.random.default_rng(1)
    truth = max(0.0, -2 * norm.ppf(sum(rates) / 2))
    wrong = sum(rng.binomial(samples, rate, repeats) for rate in rates)
    counts, times = np.unique(wrong, return_counts=True)
    bounds = np.array([mu_lower_bound(int(k), 2 * samples) for k in counts])
    assert times[bounds > truth].sum() <= binom.isf(1e-6, repeats, 0.001)
    assert np.average(bounds, weights=times) > truth - 0.12  # and it is near
    if rates == (0.3, 0.3):
        assert times[bounds > truth].sum() >= binom.ppf(1e-6, repeats, 0.0005)  # equal rates: no slack is left


def test_guesses_that_are_always_right_or_wrong():
    assert mu_lower_bound(1000, 1000) == 0.0
    assert 3.5 < mu_lower_bound(0, 1000) < mu_lower_bound(0, 100_000) < 10.0


@pytest.mark.parametrize("secure", [True, False])
def test_the_audited_run_is_that_of_simulate_to_the_last_bit(secure):
    """One run side by side with none other: the same models as in `simulate`, with the protocol and without."""
    members, colluders, half = 4, 1, 8

    def source():
        return SecureNoise(random_bytes=np.random.default_rng(7).bytes) if secure else SeededNoise(7)

    algorithm = _calibrated(1.0, members, colluders, rows=2 * half)
    runs = SideBySide(members, colluders, half, size=1)
    for which in (0, 1):
        runs.seen(algorithm, source(), which, 0)
        for exchange in (IdealTotals(), SecretSharedTotals()):
            run = tacit.simulate(
                algorithm,
                runs.problems[which],
                tacit.Graph.complete(members),
                rounds=ROUNDS,
                noise=source(),
                exchange=exchange,
            )
            np.testing.assert_array_equal(run.estimate, runs.models)
    assert runs.models[0, 0] != 0.0


def test_runs_side_by_side_have_their_own_totals_and_noise():
    """Models follow from totals; what the coalition sees is the total without its own rows."""
    members, size = 5, 300
    algorithm = _calibrated(1.0, members, 0, rows=16)
    runs = SideBySide(members, 0, 8, size)
    seen = runs.seen(algorithm, SeededNoise(0), 0, 0)
    assert seen.shape == (size, ROUNDS)
    models = runs.models.reshape(members, size)
    assert np.all(models == models[0])
    weights = np.cumsum(algorithm.momentum ** np.arange(ROUNDS))[::-1]  # how far a total moves the last model
    np.testing.assert_allclose(models[0], -algorithm.step / members * seen @ weights, rtol=1e-9)
    assert len(np.unique(seen)) == seen.size
    fewer = SideBySide(members, 2, 8, size)
    less = fewer.seen(algorithm, SeededNoise(0), 0, 0)
    ratio = less.var(axis=0) / seen.var(axis=0)
    assert np.all(np.abs(ratio - 3 / 5) < 0.15)  # the noise of three of five members is left


@pytest.mark.parametrize("colluders", [0, 1, 2, 3, 4])
def test_the_audited_method_claims_what_is_said(colluders):
    """The calibrated run costs epsilon, and the two data sets differ by all that its sensitivity allows."""
    members, half = 5, 8
    algorithm = _calibrated(1.0, members, colluders, rows=2 * half)
    runs = SideBySide(members, colluders, half, size=1)
    found = plan(algorithm, runs.problem, tacit.Graph.complete(members), ROUNDS).epsilon(DELTA)
    assert 0.999 < found <= 1.0
    at = np.zeros((members, 1))
    a, b = (problem.data_gradient(at)[:, 0] for problem in runs.problems)
    assert a.tolist() == [0.5 - 1 / (2 * half), 0, 0, 0, 0]
    assert b.tolist() == [0.5 + 1 / (2 * half), 0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("colluders", [1, 2])
def test_the_audit_is_sharp_and_passes_what_ships(colluders):
    found = audit_shared(1.0, colluders=colluders, secure=False, seed=colluders)
    assert not found.caught
    assert found.ratio >= 0.8
    assert found.against == f"{colluders} of the 5 members together"
    assert found.delta == 1e-5
    assert found.samples >= 40_000


def test_the_audit_of_secure_noise():
    """Fewer runs, so the bound is lower: of the order of what so many can show."""
    found = audit_shared(1.0, members=3, colluders=1, samples=3000, seed=3)
    assert not found.caught
    assert found.lower > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "members", "colluders"), [("share", 5, 2), ("variance", 5, 2), ("rounding", 5, 1), ("share", 9, 6)]
)
def test_planted_bugs_are_caught(bug, members, colluders):
    """Without the noise of one of n honest members, sqrt(n/(n - 1)) times mu; with shares for N, sqrt(N/(N - t)); with
    coarse rounding the noise of one member is left, nearly."""
    found = audit_shared(1.0, members=members, colluders=colluders, bug=bug, seed=1)
    assert found.caught
    assert found.lower > 1.05


def test_progress_and_refusals():
    done = []
    audit_shared(1.0, members=2, colluders=0, secure=False, samples=1000, progress=lambda *at: done.append(at))
    assert [k for k, _ in done] == sorted(k for k, _ in done)
    assert done[-1][0] == done[-1][1] == max(of for _, of in done)
    for settings, message in (
        ({"samples": 10}, "at least 1000 samples"),
        ({"members": 1}, "members must be"),
        ({"bug": "nonsense"}, "no bug 'nonsense'"),
        ({"colluders": 4, "bug": "share"}, "no noise is shared"),
        ({"colluders": 0, "bug": "variance"}, "nothing can be forgotten"),
        ({"colluders": 5}, "colluders"),
        ({"colluders": -1}, "colluders"),
        ({"epsilon": 0.001, "bug": "rounding"}, "raise epsilon"),
    ):
        with pytest.raises(TacitError, match=message):
            audit_shared(**({"epsilon": 1.0} | settings))


def test_tacit_audit_shared_descent(tacit):
    def run(*args):
        code, out, err = tacit("audit", *args)
        return code, " ".join(out.split()), err

    code, out, _ = run("shared-descent", "--bug", "rounding", "--colluders", "1", "--samples", "5000", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["claim"] == 1.0
    assert found["caught"] is True
    assert found["lower_bound"] > 1.2
    assert found["ratio"] == found["lower_bound"] / found["claim"]
    assert found["runs"] >= 5000
    code, out, _ = run("shared-descent", "--members", "3", "--samples", "1000", "--colluders", "0")
    assert code == 0
    assert "epsilon against 0 of the 3 members together is at least" in out
    assert "(99.9% confidence" in out
    assert "claimed 1 at delta 1e-05: not caught" in out
    code, out, _ = run("shared-descent", "--planted", "--members", "2", "--colluders", "0", "--samples", "10000")
    assert code == 1  # one of two shares is missing
    assert "shared-descent with a planted bug: epsilon against 0 of the 2 members" in out
    for option in ("--bug", "--members", "--colluders"):
        code, _, err = run("solver", option, "1")
        assert (code, err) == (2, f"tacit: error: the audit solver has no {option}\n")
    code, _, err = run("shared-descent", "--colluders", "5")
    assert code == 2
    assert "5 colluders" in err


def test_the_method_that_is_audited_is_the_one_that_ships():
    from tacit.run.recipes import RECIPES

    setting = RECIPES["shared-descent"].setting([800] * 5, 3, tacit.Graph.complete(5), Budget(1.0, 1e-5), Trust(1))
    assert type(setting.algorithm) is type(_calibrated(1.0, 5, 1, rows=16)) is SummedGradientDescent
