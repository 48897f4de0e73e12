"""The standing adversary at length: `make adversary` keeps its output in docs/evidence/audits.md.

    python tests/adversary_runs.py [--tries 1000] [--guesses 40] [--agents 10] [--seed 0] [--only agents]
    python tests/adversary_runs.py --only totals [--seeds 3]

*Guesses.* For every private method, and for secret-shared sums, neighbours say numbers of size 1e3, 1e6, ..., 1e300 and
then the row that cancels them; from what leaves they guess one of two data sets. The right answers are compared with
what the step's own cost allows; a false alarm has a probability of at most 1e-6 over the whole table.

*Failures.* Agents of 10 to 10,000 records and 2 to 1,000 features, at epsilon from 0.01 to 10, under rows that are
chosen to flatten the slopes of all records, or of all but one, or to sit on an edge. Under both data sets the same must
happen: a release, or a refusal from public numbers before noise is drawn. Exits with 1 if anything differs.

*Agents.* The guesses again, over the network, for every private method that a federation can name: the victim is a real
agent in a process of its own, with TLS, a store and a ledger; its two neighbours have real keys, and see only its
releases. The whole run is worth (0.1, 1e-6). The neighbours of the first victim of every size lie until its run is
over. Every ledger must have what was planned, and nothing else. The last row is the attack on the old mechanism, which
it must break.

*Totals.* Five members share their noise, on Adult, (1, 1e-5). One of them is the root of the tree and replaces totals:
by one that is beyond the bounds, or by the largest one within them. Exits with 1 if a total beyond the bounds costs
more than 0.02 at the worst tick.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import adversary
import hostile
import numpy as np
from adversary import SHARED, converse, methods, neighbours_in_one_record, private, swallowing, ticks_of_the_attack
from false_totals import FalseTotals, added, pushing, uphill
from scipy.stats import norm

import tacit
from tacit.algorithms import SummedGradientDescent
from tacit.lab.comparison.trials import trial
from tacit.model import Model
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.trust import Trust

SIZES = [10.0**k for k in (*range(3, 22, 3), 50, 100, 200, 300)]
MULTIPLIER = 10.0  # of one step: nobody tells N(0, 1) and N(1/10, 1) apart with a higher probability than Phi(1/20)


def guesses(name: str, method, per_size: int, alarm: float, summed: bool = False) -> tuple[int, int, bool]:
    """Right answers, all answers, and whether that is too many."""
    problems = neighbours_in_one_record(500, 3)
    right = tries = 0
    for size in SIZES:
        for k in range(per_size):
            liar = swallowing(method, size, k)
            ticks = ticks_of_the_attack(method)
            said = list(converse(method, problems[k % 2], tacit.SecureNoise(), liar, ticks, summed=summed))
            last = [each for each in said if private(each)][-1]
            right += adversary.told_apart(last, method, problems) == k % 2
            tries += 1
    best = 2 * norm.cdf(1 / (2 * MULTIPLIER)) - 1  # the total variation
    return right, tries, adversary.too_many(right, tries, 0.0, delta=float(best), alarm=alarm)


def outcome(method, problem, noise, liar) -> str:
    """What happens in three ticks."""
    try:
        said = list(converse(method, problem, noise, liar, ticks_of_the_attack(method)))
    except tacit.TacitError as error:
        return type(error).__name__
    return "released" if all(np.isfinite(each.value).all() for each in said) else "not finite"


def rows_to_tell_apart(rng: np.random.Generator, d: int, radius: float):
    """Along the direction in which the two data sets differ: far out, on the radius, on an edge of the hinge."""
    size = rng.choice([0.0, 1e-300, 1.0, 2.0, np.nextafter(2.0, 3.0), radius, radius * 4, 1.25e5, 2.0**17, 1e16, 1e300])
    row = rng.choice([0.0, 1.0]) * rng.normal(size=d) * size
    row[-1] = size * rng.choice([-1.0, 1.0])
    other = row * rng.choice([-1.0, 1.0], size=d) if rng.random() < 0.5 else row
    return lambda t, state: np.array([row, other]) * (-1.0 if t and rng.random() < 0.3 else 1.0)


def failures(name: str, tries: int, seed: int) -> tuple[dict[str, int], int]:
    """How often what happened, and how often the two data sets differed."""
    counts: dict[str, int] = {}
    differ = 0
    for k in range(tries):
        rng = np.random.default_rng((seed, k))
        B, d = int(10 ** rng.uniform(1, 4)), int(2 * 10 ** rng.uniform(0, math.log10(500)))
        if B * d > 300_000:
            B = max(10, 300_000 // d)
        epsilon = 10 ** rng.uniform(-2, 1)
        multiplier = 4.8 / epsilon
        penalty = max(1e-4, 3 * multiplier / B)
        method = methods(tacit.Gaussian(multiplier), penalty=penalty)[name]
        radius = 2.0 ** rng.integers(0, 13)
        problems = neighbours_in_one_record(B, d, seed=k, radius=radius, l2=1e-3)
        state = rng.bit_generator.state
        found = []
        for problem in problems:
            rng.bit_generator.state = state  # both hear the same
            noise = tacit.SecureNoise() if d <= 20 else tacit.SeededNoise(k)  # exact noise of 1,000 numbers takes long
            found.append(outcome(method, problem, noise, rows_to_tell_apart(rng, d, radius)))
        differ += found[0] != found[1]
        for each in found:
            counts[each] = counts.get(each, 0) + 1
    return counts, differ


def over_agents(name: str, identities, per_size: int, old: bool = False) -> tuple[int, int]:
    """Right answers about victims that are real agents, and all answers."""
    federation, sizes = hostile.agreed(identities, name), [1e19] if old else SIZES
    tries = per_size * len(SIZES)

    def progress(done: int) -> None:
        print(f"\r{name}: {done} of {tries} agents ", end="" if done < tries else "\r", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        right = hostile.guesses(
            Path(folder), identities, federation, sizes, tries // len(sizes), old=old, progress=progress
        )
    return sum(right), tries


def guess_table(per_size: int) -> int:
    """In one process; gives the number of methods with too many right answers."""
    made, bad = methods(tacit.Gaussian(MULTIPLIER)), 0
    rows = [(name, False) for name in made] + [(name, True) for name in SHARED]
    print(f"best possible share of right answers: {norm.cdf(1 / (2 * MULTIPLIER)):.4f}\n")
    print("| method | right | of | share | too many |\n| --- | --- | --- | --- | --- |")
    for name, summed in rows:
        right, tries, many = guesses(name, made[name], per_size, 1e-6 / len(rows), summed)
        bad += many
        text = f"{name}, secret-shared" if summed else name
        print(f"| {text} | {right} | {tries} | {right / tries:.3f} | {'YES' if many else 'no'} |", flush=True)
    return bad


def failure_table(tries: int, seed: int) -> int:
    """Gives the number of pairs of data sets that could be told apart."""
    bad = 0
    print("\n| method | pairs | what happened, under both data sets together | pairs that differ | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for name in methods(tacit.Gaussian(MULTIPLIER)):
        begin = time.perf_counter()
        counts, differ = failures(name, tries, seed)
        bad += differ
        text = ", ".join(f"{what}: {n}" for what, n in sorted(counts.items()))
        print(f"| {name} | {tries} | {text} | {differ} | {time.perf_counter() - begin:.0f} |", flush=True)
    return bad


def agent_table(per_size: int) -> int:
    """Over real agents; gives the number of methods with too many right answers, plus one if the old code holds."""
    best, bad = (math.exp(hostile.EPSILON) + hostile.DELTA) / (1 + math.exp(hostile.EPSILON)), 0
    print(f"\nagents, epsilon = {hostile.EPSILON}: best possible share of right answers: {best:.4f}\n")
    print("| method | right | of | share | too many | seconds |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        identities = hostile.Identities(Path(folder), hostile.NAMES[:3])
        for name, old in [(name, False) for name in RECIPES] + [("mr-admm", True)]:
            begin = time.perf_counter()
            right, tries = over_agents(name, identities, per_size, old)
            many = adversary.too_many(right, tries, hostile.EPSILON, hostile.DELTA, alarm=1e-6 / len(RECIPES))
            bad += many != old
            text = f"{name}, old mechanism, 1e19" if old else name
            took = time.perf_counter() - begin
            print(
                f"| {text} | {right} | {tries} | {right / tries:.3f} | {'YES' if many else 'no'} | {took:.0f} |",
                flush=True,
            )
    return bad


class SharedAdult:
    """`shared-descent` on Adult, five members on a complete graph, (1, 1e-5), any one of whom may be curious."""

    def __init__(self, seed: int) -> None:
        schema, graph = tacit.data.adult_schema(), tacit.Graph.complete(5)
        self.trial = trial(
            tacit.data.adult(), schema, lambda rows, s: tacit.data.partition.equal(len(rows), 5, s), seed
        )
        recipe, sizes = RECIPES["shared-descent"].for_label(schema.label), self.trial.sizes
        self.setting = recipe.setting(sizes, schema.model_dimension, graph, Budget(1.0, 1e-5), Trust(1, 0))
        facts, self.schema, self.graph, self.seed = self.setting.facts, schema, graph, seed
        public = {"loss": facts.loss, "scale": facts.scale, "l2": facts.l2, "radius": facts.radius}
        self.problem = tacit.Problem(self.trial.parts, **public)
        # Towards the answer "yes" for everybody: what most records have in common.
        self.common = np.mean([np.asarray(X.mean(axis=0)).ravel() for X, _ in self.trial.parts], axis=0)

    def error(self, exchange=None) -> float:
        """Of all members' one model, on the test rows."""
        algorithm, rounds = self.setting.algorithm, self.setting.rounds
        noise = tacit.SeededNoise(self.seed)
        how = {"rounds": rounds, "noise": noise, "exchange": exchange, "measure_every": rounds}
        run = tacit.simulate(algorithm, self.problem, self.graph, **how)
        return Model(run.model, self.schema, self.setting.facts.loss).measured(self.trial.test).miss

    def lied_to(self, lie) -> tuple[float, float]:
        """The error with the lie at the worst tick, and with the lie at every tick."""
        one = max(self.error(FalseTotals(lie, t)) for t in range(self.setting.rounds))
        return one, self.error(FalseTotals(lie))


def totals_table(seeds: int) -> int:
    """False totals; gives the number of seeds in which one beyond the bounds costs more than 0.02 at the worst tick."""
    cases = [SharedAdult(seed) for seed in range(seeds)]
    honest = [case.error() for case in cases]
    bounds = cases[0].setting.algorithm.bounds(cases[0].setting.facts)
    d, rounds = cases[0].problem.dimension, cases[0].setting.rounds
    print(f"\ntotals, {rounds} ticks, d = {d}: honest members reach {bounds.largest:.3f} at most\n")
    print("| what the members hear | mean error, one tick: the worst | largest | every tick |")
    print(f"| --- | --- | --- | --- |\n| the truth | {np.mean(honest):.4f} | {max(honest):.4f} | |", flush=True)

    def row(text: str, *makes) -> np.ndarray:
        found = np.array([[case.lied_to(make(case)) for case in cases] for make in makes])
        one, every = found.max(axis=0).T  # the worst of these lies
        print(f"| {text} | {one.mean():.4f} | {one.max():.4f} | {every.mean():.4f} |", flush=True)
        return one

    found = row("2^62 more or less in every entry", lambda case: added(5))  # less is read as zero, too
    most = bounds.largest * (1 - 1e-9)
    ways = [lambda case: pushing(-np.ones(d), most), lambda case: pushing(np.ones(d), most)]
    row("2^62 more or less, if it were cut back to the bounds", *ways)
    with patch.object(SummedGradientDescent, "bounds", lambda self, facts: None):
        row("2^62 more or less, if there were no bounds", lambda case: added(5), lambda case: added(5, -(2**62)))
    row("the largest within the bounds: against the truth", lambda case: uphill(most))
    row("the largest within the bounds: towards yes", lambda case: pushing(case.common, most))
    row("the largest within the bounds: towards no", lambda case: pushing(-case.common, most))
    return int(np.sum(found > np.array(honest) + 0.02))


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--guesses", type=int, default=40)
    parser.add_argument("--agents", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=("guesses", "failures", "agents", "totals"))
    args = parser.parse_args()
    tables = {
        "guesses": lambda: guess_table(args.guesses),
        "failures": lambda: failure_table(args.tries, args.seed),
        "agents": lambda: agent_table(args.agents),
        "totals": lambda: totals_table(args.seeds),
    }
    bad = sum(table() for name, table in tables.items() if args.only in (None, name))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
