"""Which theorems are about which method, and that each says what can be computed by hand from the paper's text."""

import inspect
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit import Graph
from tacit.algorithms import (
    DPADMM,
    AcceleratedDPADMM,
    Between,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    IncrementalADMM,
    PrimalPerturbedADMM,
    RandomAggregationADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RandomWalk,
    RecycledADMM,
    SummedDPADMM,
)
from tacit.composite import lasso
from tacit.core.facts import Facts
from tacit.lab.theory import convergence, descent, design, excess, incremental, random_penalties, samples
from tacit.lab.theory import dp_admm as composite
from tacit.lab.theory.design import Measured
from tacit.lab.theory.theorems import THEOREMS, Aim, Planned, statements, theorems
from tacit.losses import HuberHinge, Multinomial, PseudoHuber
from tacit.privacy.events import Gaussian
from tacit.run.budget import Budget
from tacit.run.exact import ALGORITHMS
from tacit.run.recipes import RECIPES
from tacit.run.trust import Reserve, Trust

RECYCLED = ["Theorem IV.1", "Theorem VI.1", "Theorem VI.2", "Lemmas E.1 and E.3"]
COMPOSITE = ["Theorem 1", "Theorem 2", "Theorem 2, by (18)"]
OF_RECIPES = {
    "dvp": ["Theorem 9", "Theorem 10 and Corollary 11", "Lemmas 17 and 18", "problem (28)"],
    "pvp": ["Theorem 9", "Theorem 12", "Theorem 13 and Corollary 14", "Lemma 19", "Lemma 20", "problem (28)"],
    "m-admm": [],
    "r-admm": RECYCLED,
    "mr-admm": RECYCLED,
    "pi-admm": [],  # paper 002 proves nothing about the method with noise
    "one-shot": [],
    "gradient-descent": ["Theorem 4.1", "Theorem 4.2"],
    "shared-descent": [],
    "ra-admm": ["Theorem 3.3"],
    "ra-gd": ["Theorem 3.4"],
    "rcd": ["(74)"],
    "token-gd": [],
    "dp-admm": COMPOSITE,
    "dp-accadmm": [],  # "we do not give the theoretical analysis of DP-AccADMM"
    "shared-dp-admm": COMPOSITE,
    "shared-dp-accadmm": [],
}
OF_EXACT = {
    "admm": ["Theorem 9"],
    "coca": [],
    "i-admm": ["Lemma 2", "Remark 3, (17)"],
    "pi-admm1": ["Lemma 4 and Theorem 1"],
    "w-admm": [],
    "pw-admm": [],
    "dgd": [],
    "extra": [],
    "wpg": [],
    "token-gd": [],
}


def test_the_page_has_the_same_table():
    page = (Path(__file__).parents[3] / "docs" / "theory.md").read_text(encoding="utf-8")
    found = {}
    for names, known in re.findall(
        r"^\| (`.+`) \| \S+ \| (.+) \|$", page.split("## Will it converge?")[0], re.MULTILINE
    ):
        found |= dict.fromkeys(re.findall(r"`(.+?)`", names), known.split("; "))
    assert found == {name: known for name, known in (OF_RECIPES | OF_EXACT).items() if known}
    without = page.split("All other methods have none:")[1].split(". The paper")[0]
    assert set(re.findall(r"`(.+?)`", without)) == {
        name for name, known in (OF_RECIPES | OF_EXACT).items() if not known
    }


def numbers(method):
    return [theorem.number for theorem in theorems(method)]


def said_of(method, graph, rounds, *, aim=None, total=(1.0, 1e-5), measured=None, sizes=400, d=3, **facts):
    known = Facts(sizes=[sizes] * graph.agents, dimension=d, **facts)
    planned = Planned(method, known, graph, rounds, aim or Aim(2.0, 0.1, 0.05), total, measured)
    return dict(zip(numbers(method), statements(planned), strict=True))


def test_the_tables_have_every_method():
    assert set(OF_RECIPES) == set(RECIPES)
    assert set(OF_EXACT) == set(ALGORITHMS)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_its_own_theorems(name):
    recipe = RECIPES[name]
    graph = Graph.complete(1 if recipe.traits.alone else 3)
    reserve = Reserve(1) if recipe.traits.totals else None
    setting = recipe.setting([60] * graph.agents, 2, graph, Budget(1.0, 1e-5), Trust.of(reserve))
    assert numbers(setting.algorithm) == OF_RECIPES[name]
    lines = statements(Planned(setting.algorithm, setting.facts, graph, setting.rounds, total=(1.0, 1e-5)))
    assert len(lines) == max(len(OF_RECIPES[name]), 1)
    assert OF_RECIPES[name] or "no theorem of the papers is about" in lines[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_exact_method_has_its_own_theorems(name):
    graph = Graph.complete(3)
    method = ALGORITHMS[name].make(1.0, graph)
    assert numbers(method) == OF_EXACT[name]
    lines = statements(Planned(method, Facts(sizes=[60] * 3, dimension=2, l2=0.1), graph, 10))
    assert len(lines) == max(len(OF_EXACT[name]), 1)
    assert OF_EXACT[name] or "no theorem of the papers is about" in lines[0]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (RecycledADMM(noise_on="output", alpha=1.0), ["Theorem IV.1", "Theorem VI.1"]),
        (RecycledADMM(dual_step=1.0), RECYCLED[1:]),
        (RandomAggregationADMM(exact=True), ["Theorem 3.1"]),
        (RandomAggregationADMM(), ["Theorem 3.2"]),
        (RandomAggregationADMM(exact=True, beta=1.0), []),
        (RandomAggregationGD(step=1.0, min_max=True), []),
        (RandomAggregationGD(step=1.0, weight=(0.5, 0.5)), ["Theorem 3.4", "Theorem 4.1", "Theorem 4.2"]),
        (IncrementalADMM(order=RandomWalk(0)), []),
        (IncrementalADMM(exact=False), []),
        (IncrementalADMM(offset=1.0), ["Lemma 2"]),
        (DPADMM(term=lasso(3, 0.1), exact=True), []),
        (DPADMM(term=lasso(3, 0.1)), ["Theorem 2, by (18)"]),
        (AcceleratedDPADMM(term=lasso(3, 0.1), budget=Gaussian(1.0)), []),
    ],
)
def test_settings_that_a_theorem_is_not_about(method, expected):
    assert numbers(method) == expected


def test_a_derived_class_has_no_theorem():
    class Own(RecycledADMM):
        pass

    assert theorems(Own()) == ()


@pytest.mark.parametrize(
    ("method", "graph", "loss", "number", "reason"),
    [
        (RecycledADMM(), Graph.ring(1), None, "Theorem IV.1", "at least two"),
        (RecycledADMM(), Graph.ring(101), None, "Theorem IV.1", "at most 100 agents"),
        (RandomAggregationADMM(), Graph.ring(101), None, "Theorem 3.2", "at most 100 agents"),
        (RecycledADMM(), Graph.ring(3), PseudoHuber(0.25), "Theorem VI.1", "labels of two classes"),
        (PrimalPerturbedADMM(alpha=1.0), Graph.ring(3), Multinomial(3), "Theorem 12", "labels of two classes"),
        (DualPerturbedADMM(), Graph.ring(3), HuberHinge(1.0, weights=(1.0, 2.0)), "Theorem 9", "slope of the loss"),
        (DPADMM(term=lasso(3, 0.1), budget=Gaussian(1.0)), Graph.ring(1), None, "Theorem 1", "epsilon and delta"),
        (RandomCoordinateDescent(), Graph.ring(4), None, "(74)", "a complete graph"),
        (RandomCoordinateDescent(block=2), Graph.complete(4), None, "(74)", "not about blocks of 2"),
    ],
)
def test_what_a_theorem_does_not_cover_is_said(method, graph, loss, number, reason):
    line = said_of(method, graph, 4, total=None, loss=loss, l2=0.1)[number]
    assert "says nothing here: " in line
    assert reason in line


# Everything below is computed by hand from the text of the papers, with the corrections that docs/theory.md lists.


@pytest.mark.parametrize(("gamma", "iv"), [(1.9, "fails"), (2.1, "holds")])
def test_recycled_admm_has_its_own_gamma(gamma, iv):
    """Complete graph of three, eta = M = 1: D~ = 4 + gamma; D+A is 1 where D-A is 3, and 4 where it is 0. There (iv)
    reads 1 > (4 + 2)/(4 + gamma) and 4 > (16 + 2)/(4 + gamma): gamma > 2. (iii) holds for all gamma."""
    line = said_of(RecycledADMM(gamma=gamma), Graph.complete(3), 4, scale=4.0)["Theorem IV.1"]
    assert f"at L = mu = 2 (iii) holds and (iv) {iv}" in line
    assert f"with gamma = {gamma}," in line


@pytest.mark.parametrize(("gamma", "ii"), [(4.2, "fails"), (4.3, "holds")])
def test_a_growing_penalty_has_its_own_conditions(gamma, ii):
    """The same with eta(t) = 1, eta(t+1) = 2 and L = mu = 2. Where D+A is 4, (ii) reads 8 > (8 * 8 + 2)/(4 + gamma):
    gamma > 4.25; where it is 1, 2 > (2 (3 + 2) + 2)/(4 + gamma): gamma > 2."""
    method = RecycledADMM(gamma=gamma, penalty=Geometric(1.0, 2.0))
    line = said_of(method, Graph.complete(3), 4, scale=4.0)["Theorem IV.1"]
    assert f"from solve 1 to the next: at L = mu = 2 (i) holds and (ii) {ii}" in line


# Complete graph of three: two neighbours each. d = 10, a reference of norm 2, an accuracy of 0.1.
THREE, TEN = Graph.complete(3), {"d": 10}


def rows(method, number, failure, scale=1750.0, graph=THREE):
    line = said_of(method, graph, 4, aim=Aim(2.0, 0.1, failure), scale=scale, **TEN)[number]
    return int(line.split("): ")[1].split(" rows")[0].replace(",", ""))


@pytest.mark.parametrize("scale", [1.0, 17.0, 1750.0])
@pytest.mark.parametrize(
    ("method", "number"),
    [
        (RecycledADMM(), "Theorem VI.1"),
        (RecycledADMM(penalty=Geometric(1.0, 1.1), alpha=5.0), "Theorem VI.1"),
        (ConsensusADMM(), "Theorem 9"),
        (DualPerturbedADMM(), "Theorem 9"),
        (PrimalPerturbedADMM(alpha=1.0), "Theorem 9"),
    ],
)
def test_the_same_promise_takes_the_same_rows(method, number, scale):
    """4 ln(20)/0.01, whatever the scale of the loss."""
    assert rows(method, number, 0.05, scale) == 1198


def test_recycled_admm_with_noise():
    """delta = 0.05, C = 1750, N = 5, alpha = 10 (a = 1): 8750 ln 20/[8750 0.01/8 - 10 * 100 (ln 200)^2/(1750 * 100)],
    which is 26212.66/(10.9375 - 0.160413)."""
    assert rows(RecycledADMM(alpha=10.0), "Theorem VI.2", 0.1, graph=Graph.complete(5)) == 2432
    # alpha has to exceed 2 * 2 * 10 ln(200)/(1750 * 0.1) = 1.211
    line = said_of(RecycledADMM(alpha=1.21), THREE, 4, aim=Aim(2.0, 0.1, 0.1), scale=1750.0, **TEN)["Theorem VI.2"]
    assert "says nothing here" in line
    assert "needs alpha above 1.21104" in line


@pytest.mark.parametrize("scale", [1.0, 1750.0])
def test_dual_and_primal_perturbation(scale):
    """With delta = 0.05 in each, alpha = 0.1 and eta = C. Theorem 10: 2 * 10 ln(200)/(0.1 * 0.1). Theorem 12:
    8 * 2 * 10 ln(800)/(0.01 * 0.1). Theorem 13 at eta = C/1000: sqrt(0.25) * 4 * 10 ln(200)/(0.1^1.5 * 0.1)."""
    dual = DualPerturbedADMM(alpha=0.1)
    primal, weak = (PrimalPerturbedADMM(alpha=0.1, penalty=eta, final=3) for eta in (scale, scale / 1000))
    assert rows(dual, "Theorem 10 and Corollary 11", 0.1, scale) == 10597
    assert rows(primal, "Theorem 12", 0.1, scale) == 1069538
    assert rows(primal, "Theorem 13 and Corollary 14", 0.15, scale) == 1069538
    assert rows(weak, "Theorem 13 and Corollary 14", 0.15, scale) == 33510
    assert rows(weak, "Corollary 15", 0.25, scale) == 33510


NOISY = {  # L = ln(10/0.05) for d = 10; B = 400, C = 1750, l2 = 0.1, eta = 1, two neighbours
    # zeta = (1 - 2 ln(1 + 0.25 * 4.375/4.1))/2; (C/B)^2 d^2 L^2/(2 l2 zeta^2), over C
    "Lemmas 17 and 18": (
        DualPerturbedADMM(alpha=1.0),
        4.375**2 * 100 / (0.2 * 1750),
        0.5 - math.log1p(1.09375 / 4.1),
        10,
    ),
    # zeta = l2 alpha/(2 C/B); 2 eta^2 N^2 d^2 ln(3 d/0.05)^2/(l2 zeta^2), over C
    "Lemma 19": (PrimalPerturbedADMM(alpha=1.0, centre="printed"), 2 * 4 * 100 / (0.1 * 1750), 0.1 / 8.75, 30),
    # zeta = (l2 + 2 eta N) alpha/(2 C/B); (l2 + C/4) d^2 L^2/(2 zeta^2), over C
    "Lemma 20": (PrimalPerturbedADMM(alpha=1.0), (0.1 + 437.5) * 100 / (2 * 1750), 4.1 / 8.75, 10),
    # d^2 L^2/(2 l2 alpha^2), over C
    "Lemmas E.1 and E.3": (RecycledADMM(alpha=5.0), 100 / (0.2 * 1750), 5.0, 10),
}


@pytest.mark.parametrize("number", NOISY)
def test_the_noise_of_one_step(number):
    method, factor, rate, numbers = NOISY[number]
    line = said_of(method, THREE, 4, scale=1750.0, l2=0.1, **TEN)[number]
    stated, exact = (float(line.split("by at most ")[k].split(" ")[0]) for k in (1, 2))
    assert stated == pytest.approx(factor * math.log(numbers / 0.05) ** 2 / rate**2, rel=1e-3)
    assert exact < 0.6 * stated


def test_the_lemma_on_the_objective_is_not_about_the_other_branch():
    line = said_of(DualPerturbedADMM(alpha=0.1), THREE, 4, scale=1750.0, l2=0.1, **TEN)["Lemmas 17 and 18"]
    assert "says nothing here" in line
    assert "Phi is 0" in line


def test_the_agent_that_needs_most_rows_counts():
    """Theorem 12 asks for eta/C: agents of a smaller scale need more rows. So do agents with more noise."""
    facts = Facts(sizes=[400] * 3, dimension=10, scale=np.array([2.0, 1.0, 4.0]))
    method = PrimalPerturbedADMM(alpha=np.array([[0.2, 0.1, 0.2], [0.2, 0.2, 0.2]]))
    lines = statements(Planned(method, facts, THREE, 2, Aim(2.0, 0.1, 0.1)))
    assert lines[1].startswith("Theorem 12 (dynamic-dp): 1,069,538 rows")


def test_the_design_problem():
    """J' = -5 exp(-25 a) + 0.02 (9 + 2 a)/(9 a + a^2) is zero at the alpha that is found."""
    alphas = np.array([0.01, 0.05, 0.1, 0.5, 1.0])
    measured = Measured(alphas, 0.2 * np.exp(-25 * alphas) + 0.4)
    line = said_of(DualPerturbedADMM(alpha=1.0), THREE, 4, measured=measured)["problem (28)"]
    a = float(line.split(" alpha = ")[1].split()[0])
    assert -5 * math.exp(-25 * a) + 0.02 * (9 + 2 * a) / (9 * a + a**2) == pytest.approx(0, abs=1e-5)
    assert a > 0.1  # the other zero is a maximum


def composite_lines(method, graph, sizes):
    return said_of(method, graph, 100, sizes=sizes)


def test_dp_admm():
    """n = 1000, T = 100, d = 3, mu = 1/2. alpha = 2 ln(1e5) + 1 = 24.02585; sigma^2 = alpha 100/(2 * 10^6 * 0.5), and
    twice that sigma where a record is replaced. T of Theorem 2, with eta = 1/L_f = 4: 1000 sqrt(0.5)/sqrt(12 alpha).
    (18): [4/0.5 + 3 * 0.01]/200 + 0.5 * 0.02^2 * 3."""
    own = DPADMM(term=lasso(3, 0.1), step=0.5, budget=Gaussian(10.0))  # sigma = 10 * 2/1000
    found = composite_lines(own, Graph.ring(1), 1000)
    assert "noise of deviation 0.09803 on a gradient (0.04902 if" in found["Theorem 1"]
    assert "this plan has 0.02" in found["Theorem 1"]
    assert "42 rounds times an unknown constant; this plan takes 100" in found["Theorem 2"]
    assert "a mean R of at most 0.04075 in" in found["Theorem 2, by (18)"]
    steep = composite_lines(DPADMM(term=lasso(3, 0.1), step=0.9, budget=Gaussian(10.0)), Graph.ring(1), 1000)
    assert "needs a step of at most 1/(L_f + rho ||A^T A||) = 0.8, not 0.9" in steep["Theorem 2, by (18)"]


def test_dp_admm_says_the_same_in_every_unit():
    """C, the term and the penalty times one number are the same run: so are its rounds, and R in the unit of the loss.
    The noise of Theorem 1 is on a gradient, and has its unit."""
    said = []
    for C in (1.0, 17.0, 1750.0):
        own = DPADMM(term=lasso(3, 0.1 * C), penalty=C, step=0.5 / C, budget=Gaussian(10.0))
        facts = Facts(sizes=[1000], dimension=3, scale=C)
        planned = Planned(own, facts, Graph.ring(1), 100, Aim(), (1.0, 1e-5))
        noise, *others = statements(planned)
        said.append(others)
        assert f"noise of deviation {0.0980305 * C:.4g} on a gradient" in noise
    assert said[0] == said[1] == said[2]
    assert "42 rounds" in said[0][0]


def test_members_that_share_the_noise_are_one_holder():
    """Five members of 200 rows, whose mean has the noise 0.02 sqrt(5)/5 sqrt(5) = 0.02."""
    shared = SummedDPADMM(method=DPADMM(term=lasso(3, 0.1), step=0.5), deviation=0.02 * math.sqrt(5))
    alone = DPADMM(term=lasso(3, 0.1), step=0.5, budget=Gaussian(10.0))
    assert composite_lines(shared, Graph.complete(5), 200) == composite_lines(alone, Graph.ring(1), 1000)


def test_incremental_admm():
    """L = 0.25. Lemma 2 asks for rho >= 2.5. (15b) with N = 5, rho = 1: max(7/0.75, 2 * 3 * 5) = 30; with N = 1 and
    rho = 0.35, max((0.245 + 1.4 + 1)/0.1, 4.7) = 26.45. (17), one visit ago: 2 and 2 rho."""
    five = Graph.complete(5)
    for rho, holds in ((2.5, "holds"), (2.4, "fails")):
        assert f"rho >= 2 L + 2 {holds}" in said_of(IncrementalADMM(penalty=rho), five, 10)["Lemma 2"]
    assert "2 e and its gradient to within 6 e" in said_of(IncrementalADMM(penalty=3.0), five, 10)["Remark 3, (17)"]
    for graph, rho, above in ((five, 1.0, "30,"), (Graph.complete(1), 0.35, "26.45,")):
        method = IncrementalADMM(penalty=rho, gamma=Between(0.9, 1.1))
        line = said_of(method, graph, 10)["Lemma 4 and Theorem 1"]
        assert f"(15b) fails: it asks for gamma above {above} the least is 0.9" in line


def rate_by_hand(alpha, *, exact, terms):
    """(42) or (47) for two agents, one edge: ||A_i|| = 1, A A^T = 2. m = 1, L = 1.25, D = 3, zeta = 0.02, and rho =
    rho0 = 0.05, which is a weight of 1 - 0.05/3. Corrected: 2 for N sigma_min^2, and L for M_i in the second term."""
    N, m, L, D, zeta, rho, s = 2, 1.0, 1.25, 3.0, 0.02, 0.05, 2.0
    near = ((2 * m if exact else m) - alpha * N * rho**2) / (terms * (1 if exact else 2) * L**2 / (zeta * s) + D)
    moved = terms * (D**2 + (0 if exact else 2 * L**2)) / (zeta * s) + terms * N * (N * rho**2 / s) / zeta
    step = (D - (0 if exact else L) - N / alpha) / moved
    dual = (2 * rho / zeta - N / (alpha * zeta) - 1) / (terms * N * (rho**2 / zeta**2 + 1) / s)
    return np.minimum(np.minimum(near, step), dual)


@pytest.mark.parametrize(
    ("number", "exact", "noise", "terms"),
    [("Theorem 3.1", True, {}, 5), ("Theorem 3.2", False, {}, 5), ("Theorem 3.3", False, {"beta": 1000.0}, 6)],
)
def test_random_penalties(number, exact, noise, terms):
    """With noise, (58): a = 1/(1 + p/2), and 6 p D^2/(zeta s) + 2 D/p weighs E||Delta_i||^2 = 2 d/beta^2."""
    p = float(rate_by_hand(np.linspace(25, 400, 400_001), exact=exact, terms=terms).max())
    w = 1 - 0.05 / 3
    method = RandomAggregationADMM(penalty=3.0, dual_step=0.02, own=(w, w), exact=exact, **noise)
    line = said_of(method, Graph.path(2), 50, l2=1.0)[number]
    assert f"by a factor of at least {1 + p:.6g} in each round" in line
    if noise:
        a = 1 / (1 + p / 2)
        start = 2 * 3 * 4 + 2 * (1 + 2) ** 2 / 2 / 0.02  # D ||x*||^2; ||grad f_i(x*)|| <= 1 + l2 ||x*||
        weight = 6 * p * 9 / 0.04 + 2 * 3 / p
        bound = a**50 * start + sum(a**k for k in range(1, 51)) * 2 * weight * 6e-6
        assert f"within {math.sqrt(bound / 6):.4g} of the optimum" in line


def test_random_weights_are_penalties_over_the_degree():
    """Gamma_i + rho_i V_i = D_i: with two neighbours and D = 3, rho between 0.05 and 0.06 is a weight from 0.96."""
    method = RandomAggregationADMM(penalty=3.0, dual_step=0.02, own=(1 - 0.12 / 3, 1 - 0.1 / 3))
    line = said_of(method, THREE, 50, l2=1.0)["Theorem 3.2"]
    expected = random_penalties.linear_rate(
        random_penalties.edges(THREE), m=1.0, L=1.25, D=3.0, zeta=0.02, rho=(0.05, 0.06)
    )
    assert expected.holds
    assert str(expected) in line


def test_random_aggregation():
    """c = 1/2, N = 3, G = 1, S_0 = 12, K = 4: [sqrt(4) 12/4 + 3 ((2 - 1)(1 + ln 4) + 3)]/4 = 5.53972, over N."""
    method = RandomAggregationGD(step=lambda k: 2.0 / (k + 1) ** 0.5)
    line = said_of(method, Graph.complete(3), 4)["Theorem 3.4"]
    assert "the loss at the average of all models is within 1.847 of" in line
    # With the best c and V^2 = 3 * 2/(10 * 2)^2 for beta = 10 and steps of 2: 2 sqrt(12 * 3 (1 + 0.015) 5.38629/2)/4.
    constant = said_of(RandomAggregationGD(step=2.0, beta=10.0), Graph.complete(3), 4)["Theorem 3.4"]
    assert "which this plan does not take, the loss" in constant
    assert "within 1.653 of" in constant
    assert "it is about a complete graph" in said_of(method, Graph.path(3), 4)["Theorem 3.4"]


# Four agents of 400 rows, C = 4, l2 = 1/2, M = 1.5. A step of 1/2 is 1/M for M = 2: a round keeps 3/4 of the gap, which
# is at most 2/2 * 4 an agent, and two rounds 9/16. The noise has the deviation 10 * 2 * 4/400 * step = 0.1.
FOUR, CURVED = Graph.complete(4), {"scale": 4.0, "l2": 0.5}


def test_descent_from_the_mean():
    """Theorem 4.1: (9 + 1.75 (4 * 4 sqrt(2/pi) 0.1/2 + 0.0075))/16; by the curvature (9 + 1.75 * 0.0125)/16. Theorem
    4.2, with C_1 = 4 sqrt(3): (9 + 1.75 (4 * 6.9282 sqrt(2 ln 6) 0.1/2 + 0.0075))/16."""
    for method in (
        GradientDescent(step=0.5, mixing=0.25, budget=Gaussian(10.0)),
        RandomAggregationGD(step=0.5, weight=(0.5, 0.5), budget=Gaussian(10.0)),
    ):
        found = said_of(method, FOUR, 2, **CURVED)
        assert "the loss is within 0.6331 of" in found["Theorem 4.1"]
        assert "beyond the paper, within 0.5639 of" in found["Theorem 4.1"]
        assert "the loss is within 0.8502 of" in found["Theorem 4.2"]
    long = said_of(GradientDescent(step=0.7, mixing=0.25), FOUR, 2, **CURVED)
    assert "needs a step of at most 1/M = 0.6667, not 0.7" in long["Theorem 4.1"]
    assert "mixing of 1/agents" in said_of(GradientDescent(step=0.5, mixing=0.2), FOUR, 2, **CURVED)["Theorem 4.1"]


def test_random_coordinates():
    """(1 - 1/12)^2 4 + 0.05^2 (1 + 11/12), over C = 4; the mean of four agents has half of the deviation 0.1."""
    method = RandomCoordinateDescent(step=0.5, budget=Gaussian(10.0))
    line = said_of(method, FOUR, 2, **CURVED)["(74)"]
    assert line.startswith("(74) (local-dp): the loss is within 0.8415 of")


CALCULATORS = (convergence, descent, design, incremental, random_penalties, samples, composite, excess)


def public_functions():
    for module in CALCULATORS:
        for name, function in vars(module).items():
            if inspect.isfunction(function) and function.__module__ == module.__name__ and name[0] != "_":
                yield function


def test_every_calculator_is_reached_from_a_method():
    """What the tests above ask for calls all of them, but those that a theorem names for the states of a run."""
    called = set()

    def note(frame, event, _):
        if event == "call":
            called.add(frame.f_code)

    sys.setprofile(note)
    try:
        test_recycled_admm_has_its_own_gamma(2.1, "holds")
        test_a_growing_penalty_has_its_own_conditions(4.3, "holds")
        test_recycled_admm_with_noise()
        test_dual_and_primal_perturbation(1.0)
        for number in NOISY:
            test_the_noise_of_one_step(number)
        test_the_design_problem()
        test_dp_admm()
        test_incremental_admm()
        test_random_aggregation()
        test_descent_from_the_mean()
        test_random_coordinates()
        said_of(
            RandomAggregationADMM(penalty=3.0, dual_step=0.02, own=(0.98, 0.98), beta=1000.0),
            Graph.path(2),
            50,
            l2=1.0,
        )
    finally:
        sys.setprofile(None)
    of_a_run = {function for theorem in THEOREMS for function in theorem.of_a_run}
    orphans = {f.__qualname__ for f in public_functions() if f.__code__ not in called and f not in of_a_run}
    assert orphans == set()
    assert len(list(public_functions())) > 30
