"""Every release has noise of its own, with `SecureNoise` as it ships: records of zeros leave nothing but the noise.

*Mechanisms*: the signs of the noise at two ticks agree as often as those of fair coins, which is exact for every law:
all are symmetric in every coordinate. So do those of two agents. *Methods*: what the earlier releases of a run do not
explain, by linear regression, has the same variance with `SecureNoise` as with `SeededNoise`. Each test has a
false-alarm rate of 1e-6 in all, and is shown to catch noise that is used twice.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom, f

import tacit
from tacit.lab.audit.named import recipe_case
from tacit.lab.audit.shared import SideBySide, _calibrated
from tacit.privacy import mechanisms
from tacit.privacy.events import Gaussian
from tacit.privacy.laws import Normal, Spherical, TwoSided
from tacit.privacy.noise import SecureNoise, SeededNoise
from tacit.privacy.plan import plan
from tacit.run.recipes import RECIPES

AGENTS, D, TICKS, ALARM = 40, 50, 3, 1e-6
NOTHING = tacit.Problem([(np.zeros((4, D)), np.ones(4))] * AGENTS, l2=0.5)
ZERO, ONE, IDS = np.zeros((AGENTS, D)), np.ones((AGENTS, 1)), np.arange(AGENTS)


def objective(law):
    def release(noise, t):
        return mechanisms.objective_perturbed(
            NOTHING, noise, law, linear=ZERO, weight=ONE, centre=ZERO, start=ZERO, factor=ONE, ids=IDS, t=t
        )

    return release


def coordinates(noise, t):
    """All coordinates of a layer, one at a time."""
    found = [
        mechanisms.coordinate_step_perturbed(
            NOTHING, noise, TwoSided(ONE), ZERO, k, ONE, charge=k == 0, ids=IDS, t=D * t + k
        )
        for k in range(D)
    ]
    return found[0]._replace(value=np.column_stack([each.value[:, k] for k, each in enumerate(found)]))


MECHANISMS = {
    "objective_perturbed, normal": objective(Normal(ONE)),
    "objective_perturbed, spherical": objective(Spherical(ONE)),
    "minimiser_perturbed": lambda noise, t: mechanisms.minimiser_perturbed(
        NOTHING, noise, Normal(ONE), ZERO, ONE, ids=IDS, t=t
    ),
    "step_perturbed": lambda noise, t: mechanisms.step_perturbed(
        NOTHING, noise, Normal(ONE), ZERO, ZERO, ONE, ids=IDS, t=t
    ),
    "coordinate_step_perturbed": coordinates,
    "gradient_perturbed": lambda noise, t: mechanisms.gradient_perturbed(
        NOTHING, noise, Gaussian(1.0), ZERO, 1.0, ids=IDS, t=t
    ),
    "noisy_gradient": lambda noise, t: mechanisms.noisy_gradient(NOTHING, noise, ONE, ZERO, ids=IDS, t=t),
    "noisy_gradient, sampled": lambda noise, t: mechanisms.noisy_gradient(
        NOTHING, noise, ONE, ZERO, rate=0.5, ids=IDS, t=t
    ),
    "gradient_share": lambda noise, t: mechanisms.gradient_share(
        NOTHING, noise, 1.0, ZERO, members=AGENTS, colluders=1, dropouts=0, ids=IDS, t=t
    ),
    "second_moment_perturbed": lambda noise, t: mechanisms.second_moment_perturbed(
        NOTHING, noise, Gaussian(1.0), ids=IDS, t=t
    ),
}


def alike(signs):
    """Which pairs of rows agree too often, or too seldom, for coins: 1e-6 for all pairs together."""
    pairs, count = list(combinations(range(len(signs)), 2)), signs.shape[1]
    low, high = binom.ppf(ALARM / len(pairs) / 2, count, 0.5), binom.isf(ALARM / len(pairs) / 2, count, 0.5)
    agree = [int((signs[i] == signs[j]).sum()) for i, j in pairs]
    return [pair for pair, n in zip(pairs, agree, strict=True) if not low <= n <= high]


def reused(release, noise):
    """Pairs of ticks, and of agents, whose noise is not independent."""
    signs = np.array([release(noise, t).value > 0 for t in range(TICKS)])  # (ticks, agents, numbers)
    return alike(signs.reshape(TICKS, -1)), alike(signs[:, :8].transpose(1, 0, 2).reshape(8, -1))


class OnceForAll(SecureNoise):
    """A bug to catch: what was drawn first for a block of this size is used again."""

    def _rounded(self, law, value, base, scale, step):
        zero, kept = np.zeros_like(value), vars(self).setdefault("kept", {})
        drawn = kept.setdefault(value.shape, super()._rounded(law, zero, zero, scale, step))
        return base + value + drawn


class OneForAll(SecureNoise):
    """A bug to catch: all agents of a block have the noise of the first."""

    def _rounded(self, law, value, base, scale, step):
        return base + value + super()._rounded(law, np.zeros_like(value), np.zeros_like(value), scale, step)[:1]


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_release_of_a_mechanism_has_noise_of_its_own(name):
    release = MECHANISMS[name]
    assert reused(release, SecureNoise()) == ([], [])
    assert len(reused(release, OnceForAll())[0]) == 3  # every pair of three ticks
    assert len(reused(release, OneForAll())[1]) == 28  # every pair of eight agents


def test_no_mechanism_is_left_out():
    """Those that take a source of noise; `_perturbed` is a part of two of them."""
    noisy = {
        name
        for name, each in vars(mechanisms).items()
        if getattr(each, "__module__", "") == mechanisms.__name__ and "noise" in getattr(each, "__annotations__", {})
    }
    assert {name.split(",")[0] for name in MECHANISMS} | {"_perturbed"} == noisy


def test_every_gradient_has_a_sample_of_its_own():
    """Rows that are unit vectors show in which coordinate a record joined, through very little noise."""
    problem = tacit.Problem([(np.eye(D), np.ones(D))] * AGENTS)

    def joined(noise):
        found = [
            mechanisms.noisy_gradient(problem, noise, 1e-3 * ONE, ZERO, rate=0.5, ids=IDS, t=t).value
            for t in range(TICKS)
        ]
        return np.array(found).reshape(TICKS, -1) < -0.5 / D  # at zero a record that joined moves its entry by -1/D

    class OneSample(SecureNoise):
        def choose(self, rate, count, ids, t):
            return vars(self).setdefault("chosen", super().choose(rate, count, ids, t))

    fresh = joined(SecureNoise())
    assert abs(fresh.mean() - 0.5) < 5 * np.sqrt(0.25 / fresh.size)
    assert alike(fresh) == []
    assert len(alike(joined(OneSample()))) == 3


def unexplained(transcripts, width):
    """(numbers,) the variance of each number of a transcript, (runs, numbers), that those of earlier releases, `width`
    numbers each, do not explain; relative to its variance; and the degrees of freedom."""
    runs, count = transcripts.shape
    found, free = np.empty(count), np.empty(count)
    for k in range(count):
        before = np.column_stack([np.ones(runs), transcripts[:, : k // width * width]])
        unit = np.maximum(np.abs(before).max(axis=0), 1e-300)
        fit, _, rank, _ = np.linalg.lstsq(before / unit, transcripts[:, k], rcond=1e-9)
        free[k] = runs - rank
        found[k] = ((transcripts[:, k] - before / unit @ fit) ** 2).sum() / free[k]
    return found, free


def stale(secure, seeded, width, paid):
    """The numbers with too little (or too much) of their own. `paid` says which releases have noise."""
    (own, free), (right, others) = unexplained(secure, width), unexplained(seeded, width)
    spread = seeded.var(axis=0)
    fresh = right > 1e-6 * spread  # a number that follows from earlier ones has nothing of its own, by design
    assert all(fresh[k * width : (k + 1) * width].any() for k in paid)
    level = ALARM / len(own) / 2
    ratio = own[fresh] / right[fresh]
    low, high = f.ppf(level, free[fresh], others[fresh]), f.isf(level, free[fresh], others[fresh])
    return np.flatnonzero(fresh)[(ratio < low) | (ratio > high)]


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if not recipe.traits.totals])
def test_every_paid_release_of_a_run_has_noise_of_its_own(name):
    case, runs = recipe_case(name, 4.0, rounds=3), 300
    nothing = tacit.Problem(
        [(np.zeros((2, 2)), np.ones(2))] * runs,
        loss=case.facts.loss,
        scale=float(case.facts.scale[0]),
        l2=case.facts.l2,
        radius=case.facts.radius,
    )
    events = plan(case.algorithm, case.facts, case.graph, case.ticks).events[0]
    paid = [k for k, event in enumerate(events) if hasattr(event, "multiplier")]
    count = 2 * len(events)  # the rest are last digits

    def said(noise):
        return case.transcripts(nothing, noise)[:, :count]

    seeded = said(SeededNoise(5))
    assert len(stale(said(SecureNoise()), seeded, 2, paid)) == 0
    again = stale(said(OnceForAll()), seeded, 2, paid)
    assert len(again) > 0 or len(paid) == 1


def test_every_total_has_noise_of_its_own():
    """What a coalition of two of five sees, of models that stay where they are."""
    algorithm, runs = _calibrated(4.0, 5, 2, rows=16), SideBySide(5, 2, 8, size=300)

    def seen(noise):
        return runs.seen(algorithm, noise, 0, 0)

    seeded = seen(SeededNoise(5))
    assert len(stale(seen(SecureNoise()), seeded, 1, range(3))) == 0
    assert stale(seen(OnceForAll()), seeded, 1, range(3)).tolist() == [1, 2]
