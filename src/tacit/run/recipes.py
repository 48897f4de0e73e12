"""Settings for a private run, from public facts alone: the numbers of rows, the graph, and the budget.

Two numbers decide most of it. The average of the agents' gradients carries noise of deviation

    s = 2 g m / (B sqrt(N))

in each coordinate, where m is the multiplier at which one Gaussian mechanism would spend the whole budget, B the mean
number of rows, and g the loss's slope. No method can average away more noise than that. K steps of proximal weight w,
from zero, reach about as far as one solve with an l2 of w/K would. So a recipe fixes K, and the `reach` c in w = c K s.
We chose them on synthetic records (`benchmarks/tuning.py`), never on the data that results are reported for.

A third number is a bound: agents ignore models farther from zero than a `radius`. A solve with an l2 of c s starts from
a loss of L(0), so its minimiser f has c s/2 ||f||^2 <= L(0). A step's noise, of deviation s sqrt(N K) in a gradient,
has the norm sqrt(d N/K)/c in a model. The radius is four times the sum of both, rounded up to a power of two.

With shared noise (`tacit.algorithms.summed`) the average carries sqrt(N/(N - t - q))/N of the noise of one agent, with
t colluders and q dropouts, in place of 1/sqrt(N): the rest is the same.

The label decides the loss (`Recipe.loss_for`). After the last noisy step the agents average their models, which reads
no record and costs nothing, until they lie within a thousandth of their distance before (`Averaged`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tacit.algorithms.averaged import Averaged
from tacit.algorithms.hyper import Geometric
from tacit.core.algorithm import Traits, traits
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, PseudoHuber
from tacit.core.multinomial import Multinomial
from tacit.data.columns import Classes, Label, Multiclass, Target
from tacit.errors import InputError
from tacit.privacy.accounting import gaussian_steps
from tacit.privacy.events import MOST_ROUNDS, Gaussian
from tacit.privacy.plan import largest_budget
from tacit.run.budget import Budget
from tacit.run.parts import METHODS
from tacit.run.setting import Setting, check_classes
from tacit.run.share import share_event
from tacit.run.spec import RunSpec
from tacit.run.trust import LOCAL, Reserve, Trust

_CURVATURE_SHARE = 0.2  # the share of epsilon that pays for the curvature of the loss in one-shot averaging
_FEW_MEMBERS, _MANY_ROWS = 5, 4000  # for which recycled ADMM is recommended
_BLOCKS = 8  # of coordinates, in random coordinate descent: with more, rounds are as many times more
_MOMENTUM = 0.9  # the most, where noise is shared
_L2 = 1e-5  # the proximal weight regularises; l2 only makes the optimum unique
# For targets in [-1, 1], by benchmarks/tuning_labels.py: the loss, and how much farther reach is than for classes.
_NUMBERS, _NUMBERS_REACH = PseudoHuber(0.25), 6.0


@dataclass(frozen=True)
class NoiseLevel:
    """How much noise a budget forces on the agents, whatever the method."""

    epsilon: float
    rows: float  # B, the mean over agents
    most: float  # the most rows of an agent, over B: by so much its objective is more curved
    dimension: int  # d, of a model
    deviation: float  # s, of the averaged gradient
    reserve: Reserve | None = None  # if the noise is shared

    @classmethod
    def of(
        cls,
        sizes: Sequence[int] | np.ndarray,
        dimension: int,
        slope: float,
        epsilon: float,
        delta: float,
        reserve: Reserve | None = None,
    ) -> NoiseLevel:
        """From the numbers of rows and weights, the slope of the loss, and the budget; `reserve`, if it is shared."""
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise InputError(f"epsilon must be a positive number, not {epsilon}")
        m = gaussian_steps(1, epsilon, delta).multiplier
        rows = float(np.mean(sizes))
        shares = 1 if reserve is None else reserve.shares(len(sizes))
        most = float(np.max(sizes)) / rows
        return cls(epsilon, rows, most, dimension, 2 * slope * m / (rows * math.sqrt(len(sizes) * shares)), reserve)


# What was calibrated last, by all that it follows from: it takes a second, and the next fold or seed asks for the same.
_CALIBRATED: dict[tuple[Any, ...], RunSpec] = {}
_REMEMBERED = 100

# A method for every budget (for every deviation of a share, where noise is shared), its rounds, and l2.
Built = tuple[Callable[[Any], Any], int, float]


@dataclass(frozen=True)
class Recipe:
    """One method, and how its settings follow from public facts."""

    name: str  # what specs say; empty for a variant that no file can name
    title: str
    solves: int  # K, noisy steps
    reach: float  # c in w = c K s
    loss: HuberHinge | Multinomial | PseudoHuber
    build: Callable[[Recipe, NoiseLevel, Graph], Built]
    kind: str = ""  # of its method (`tacit.run.parts.METHODS`), by default its own name
    averages: bool = True  # whether the agents average their models at the end; not where the method itself does
    single: bool = False  # whether its settings also serve one holder of all records, without neighbours
    counts: bool = True  # whether its budget can also pay for a noisy count
    usual: bool = True  # whether a comparison shows it unless others are asked for

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or self.name)

    @property
    def method(self) -> Any:
        """The class of its method."""
        return METHODS[self.kind]

    @property
    def traits(self) -> Traits:
        """What the method of this recipe declares of itself."""
        return traits(self.method)

    def for_label(self, label: Label) -> Recipe:
        """The same recipe, as `RECIPES` has it, with the loss for this label."""
        reach = _NUMBERS_REACH * self.reach if isinstance(label, Target) else self.reach
        return replace(self, loss=self.loss_for(label), reach=reach)

    def loss_for(self, label: Label) -> HuberHinge | Multinomial | PseudoHuber:
        """The loss for this label, with the offset and the weights that the label says."""
        if isinstance(label, Classes):
            assert isinstance(self.loss, HuberHinge)
            loss = self.loss if label.weights is None else replace(self.loss, weights=label.weights)
            return loss if label.positive_share is None else loss.centred(label.positive_share)
        if isinstance(label, Multiclass):
            several = Multinomial(len(label.classes), weights=label.weights or ())
            check_classes(self.title, self.method, several)
            return several if label.shares is None else several.centred(label.shares)
        return _NUMBERS

    def check_reserve(self, reserve: Reserve | None) -> None:
        """Refuses shared noise without a number of colluders, and local noise with one."""
        if self.traits.totals and reserve is None:
            raise InputError(f"{self.title}: say how many members may collude (colluders = 1)")
        if reserve is not None and not self.traits.totals:
            raise InputError(
                f"{self.title}: every member adds all of its noise, which protects against all others together: leave "
                "out colluders and dropouts, or take shared-descent"
            )

    def setting(
        self,
        sizes: Sequence[int] | np.ndarray,
        dimension: int,
        graph: Graph,
        budget: Budget,
        trust: Trust = LOCAL,
        *,
        count: bool = False,
        radius: float | None = None,
        schema: str = "",
    ) -> Setting:
        """The setting with which no agent spends more than the budget.

        sizes : the number of rows of each agent
        dimension : the number of weights of a model
        graph : who talks to whom
        budget : the total
        trust : how many members may collude or drop out, for a recipe that shares the noise; how members listen.
            Members that listen robustly do not average at the end: each such round is one more chance for a liar.
        count : whether the budget also pays for a noisy count of the positives
        radius : agents ignore models farther from zero; by default the radius of the module's docstring
        schema : the digest of the schema of the records, if they have one
        """
        self.check_reserve(trust.reserve)
        if self.traits.alone and graph.agents > 1:
            raise InputError(
                f"{self.title}: for one holder of all records, not for {graph.agents}; several take the same method "
                "with shared noise (shared-dp-admm, shared-dp-accadmm)"
            )
        if graph.agents == 1 and not self.single:
            able = ", ".join(name for name, recipe in RECIPES.items() if recipe.single)
            raise InputError(f"{self.title}: it needs neighbours; one holder of all records takes one of: {able}")
        if count and not self.counts:
            # The event of one-shot composes with others by Renyi divergences alone: infinite for so much curvature.
            raise InputError(
                "one-shot spends its budget in one release, and cannot pay for a noisy count besides: give the share "
                "of positives as a number, or take another algorithm"
            )
        known = (tuple(np.asarray(sizes).tolist()), dimension, graph, budget, trust, count, radius)
        found = _CALIBRATED.get((self, *known))
        if found is None:
            found = self._spec(*known)
            if len(_CALIBRATED) >= _REMEMBERED:
                _CALIBRATED.clear()
            _CALIBRATED[self, *known] = found
        return Setting(replace(found, schema=schema), found.facts(sizes, dimension), self)

    def _spec(
        self,
        sizes: tuple[int, ...],
        dimension: int,
        graph: Graph,
        budget: Budget,
        trust: Trust,
        count: bool,
        radius: float | None,
    ) -> RunSpec:
        """The run as data. It follows from these arguments and from nothing else."""
        rows, reserve = np.asarray(sizes), trust.reserve
        epsilon, delta = budget.epsilon, budget.delta
        level = NoiseLevel.of(rows, dimension, self.loss.max_slope, epsilon, delta, reserve)
        make, rounds, l2 = self.build(self, level, graph)
        if rounds > MOST_ROUNDS:
            raise InputError(
                f"with this budget and so many records the method takes {rounds:,} rounds, and {MOST_ROUNDS:,} are "
                "allowed: lower epsilon, or train without privacy"
            )
        scale = rows / rows.mean()  # every row has the same weight: scale_i/B_i is the same for all agents
        radius = self.radius(level, scale) if radius is None else radius
        facts = Facts(sizes=rows, dimension=dimension, loss=self.loss, scale=scale, l2=l2, radius=radius)
        if reserve is not None:
            make = _shared(make, facts, reserve)
        # A member that drops out leaves a tick in doubt, which is said once more: the budget pays for that, too.
        paid = rounds + trust.dropouts
        before = (share_event(epsilon, delta),) if count else ()
        step = largest_budget(make, facts, graph, paid, epsilon=epsilon, delta=delta, before=before)
        method = make(step)
        if trust.robust is None and self.averages and graph.agents > 1:
            method = Averaged(method=method, ticks=rounds, mixing=graph.mixing)
            rounds += graph.mixing_rounds()
        return RunSpec(method, rounds, self.loss, graph, l2, radius, budget, trust, count=count, recipe=self.name)

    def radius(self, level: NoiseLevel, scale: np.ndarray) -> float:
        """How far from zero the models of an honest run can be."""
        start = _at_zero(self.loss)
        learnt = math.sqrt(2 * start / (self.reach * level.deviation))
        random = math.sqrt(level.dimension * len(scale) / self.solves) / self.reach
        return 2.0 ** math.ceil(math.log2(4 * (learnt + random) * max(1.0, float(scale.max()))))


def _at_zero(loss: HuberHinge | Multinomial | PseudoHuber) -> float:
    """The largest loss that a model of zeros has at a record."""
    if isinstance(loss, Multinomial):
        offset, weights = np.asarray(loss.offset), np.asarray(loss.weights)
        return float(np.max(weights * (np.logaddexp.reduce(offset) - offset)))
    return float(loss.value(np.zeros(2), np.array([-1.0, 1.0])).max())


def _penalty(recipe: Recipe, level: NoiseLevel, graph: Graph) -> float:
    """eta with 2 eta V = c K s at the mean degree."""
    return recipe.reach * recipe.solves * level.deviation / (2 * max(float(graph.degree.mean()), 1.0))


def _growing(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Geometric:
    """A penalty that doubles over the run and reaches as far as a constant one would."""
    ratio = 2 ** (1 / max(recipe.solves - 1, 1))
    mean = float(np.mean(ratio ** -np.arange(recipe.solves)))
    return Geometric(_penalty(recipe, level, graph) * mean, ratio)


def _perturbed(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    eta = _penalty(recipe, level, graph)
    return lambda budget: recipe.method(penalty=eta, budget=budget), recipe.solves, _L2


def _in_penalty(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    eta, growing = _penalty(recipe, level, graph), _growing(recipe, level, graph)
    return lambda budget: recipe.method(penalty=growing, dual_step=eta, budget=budget), recipe.solves, _L2


def _recycled(recipe: Recipe, level: NoiseLevel, graph: Graph, penalty: Geometric | None = None) -> Built:
    eta = _penalty(recipe, level, graph)
    gamma = 0.2 * eta * float(graph.degree.mean())
    schedule = eta if penalty is None else penalty
    return lambda budget: recipe.method(penalty=schedule, gamma=gamma, budget=budget), 2 * recipe.solves, _L2


def _recycled_growing(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    return _recycled(recipe, level, graph, _growing(recipe, level, graph))


def _one_shot(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    # The loss's curvature costs ln(1 + x), x = c/(B l2): at most a fixed share of epsilon (of several classes, twice).
    room = recipe.loss.max_curvature / (level.rows * math.expm1(_CURVATURE_SHARE * level.epsilon))
    l2 = max(recipe.reach * level.deviation, room)
    return lambda budget: recipe.method(mixing=graph.mixing, budget=budget), 1 + graph.mixing_rounds(), l2


def _steps(recipe: Recipe, level: NoiseLevel, largest: float = 4.0) -> tuple[int, float]:
    """How many gradient steps of which size: K of 1/(c K s) reach as far; if they are too large for the curvature, more
    of them. `largest` is in units of one over the curvature."""
    steps = max(recipe.solves, math.ceil(recipe.loss.max_curvature / (recipe.reach * level.deviation * largest)))
    return steps, 1 / (recipe.reach * steps * level.deviation)


def _descent(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    steps, step = _steps(recipe, level)
    return lambda budget: recipe.method(step=step, mixing=graph.mixing, budget=budget), steps, _L2


def _random_admm(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    steps, step = _steps(recipe, level, 1 / level.most)  # with the dual variable, larger steps overshoot
    return lambda budget: recipe.method(penalty=1 / step, budget=budget), steps, _L2


def _random_descent(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    steps, step = _steps(recipe, level)
    return lambda budget: recipe.method(step=step, budget=budget), steps, _L2


def _coordinates(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    # A layer, one visit to each block of coordinates, costs as much as a step, and moves as far.
    layers, step = _steps(recipe, level)
    block = math.ceil(level.dimension / _BLOCKS)
    rounds = layers * math.ceil(level.dimension / block)
    return lambda budget: recipe.method(step=step, block=block, budget=budget), rounds, _L2


def _token_descent(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    # In a cycle the token takes N steps, one for each agent's gradient.
    cycles, step = _steps(recipe, level)
    from tacit.core.hamiltonian import hamiltonian_cycle

    order = hamiltonian_cycle(graph)
    return (
        lambda budget: recipe.method(step=step / graph.agents, order=order, budget=budget),
        cycles * graph.agents,
        _L2,
    )


def _composite(recipe: Recipe, level: NoiseLevel, accelerated: bool) -> tuple[dict[str, Any], int]:
    """The settings of DP-ADMM with a lasso, in the way of `PrivateFusedLogisticRegression`, and its rounds."""
    from tacit.composite import lasso
    from tacit.run import composite_pace

    stop = recipe.reach * level.deviation
    term = lasso(level.dimension, composite_pace.STRENGTH * stop)
    smooth = recipe.loss.max_curvature + _L2
    penalty = composite_pace.PENALTY * smooth / term.norm
    # The longest step for which (18) of the paper holds, about 1/L_f: thousands of rounds without acceleration.
    rounds, step, _ = composite_pace.pace(stop, 1 / (smooth + penalty * term.norm), accelerated=accelerated)
    return {"term": term, "penalty": penalty, "step": step}, rounds


def _held_by_one(recipe: Recipe, level: NoiseLevel, graph: Graph, accelerated: bool) -> Built:
    settings, rounds = _composite(recipe, level, accelerated)
    return lambda budget: recipe.method(**settings, budget=budget), rounds, _L2


def _summed_composite(recipe: Recipe, level: NoiseLevel, graph: Graph, accelerated: bool) -> Built:
    settings, rounds = _composite(recipe, level, accelerated)
    assert level.reserve is not None
    t, q = level.reserve
    method = METHODS["dp-accadmm" if accelerated else "dp-admm"](**settings)
    return lambda share: recipe.method(method=method, deviation=share, colluders=t, dropouts=q), rounds, _L2


def _shared(make: Callable[[float], Any], facts: Facts, reserve: Reserve) -> Callable[[Gaussian], Any]:
    """A method for every budget, from one for every deviation of a share of the noise."""
    from tacit.algorithms.summed import share_deviation

    return lambda budget: make(share_deviation(facts, budget, colluders=reserve.colluders, dropouts=reserve.dropouts))


def _summed(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    # Momentum reaches as far in fewer rounds, and a round costs every member several messages. K rounds with the
    # largest step need a momentum of 1 - K step c s; more than 0.9 would still gather speed when the run ends.
    largest, way = 4 / recipe.loss.max_curvature, 1 / (recipe.reach * level.deviation)
    rounds = max(recipe.solves, math.ceil((1 - _MOMENTUM) * way / largest))
    momentum, reserve = max(0.0, 1 - rounds * largest / way), level.reserve
    step = way * (1 - momentum) / rounds
    assert reserve is not None
    return (
        lambda deviation: recipe.method(
            step=step,
            momentum=momentum,
            deviation=deviation,
            colluders=reserve.colluders,
            dropouts=reserve.dropouts,
        ),
        rounds,
        _L2,
    )


def _token(recipe: Recipe, level: NoiseLevel, graph: Graph) -> Built:
    # A visit is a step of proximal weight rho. In one cycle the token moves by about the mean of these steps.
    # The steps are exact: rho lies below the curvature of the loss, where first-order steps overshoot.
    from tacit.core.hamiltonian import hamiltonian_cycle

    rho, order = recipe.reach * recipe.solves * level.deviation, hamiltonian_cycle(graph)
    visits = recipe.solves * graph.agents
    return lambda budget: recipe.method(penalty=rho, order=order, budget=budget), visits, _L2


_HINGE = HuberHinge(1.0)  # of this width or more it has probabilities
_RECIPES = (
    Recipe("dvp", "ADMM, dual perturbation", 32, 1.0, _HINGE, _perturbed),
    Recipe("pvp", "ADMM, primal perturbation", 64, 0.7, _HINGE, _perturbed),
    Recipe("m-admm", "ADMM, noise in a growing penalty", 32, 1.0, _HINGE, _in_penalty),
    Recipe("r-admm", "recycled ADMM", 32, 1.4, _HINGE, _recycled),
    Recipe("mr-admm", "recycled ADMM, growing penalty", 32, 1.4, _HINGE, _recycled_growing, kind="r-admm"),
    Recipe("pi-admm", "incremental ADMM, noise on a token", 32, 1.4, _HINGE, _token, kind="i-admm"),
    Recipe(
        "one-shot",
        "one private solve each, averaged",
        1,
        0.25,
        HuberHinge(2.0),
        _one_shot,
        averages=False,
        single=True,
        counts=False,
    ),
    Recipe("gradient-descent", "decentralised DP gradient descent", 50, 0.7, _HINGE, _descent, single=True),
    Recipe("shared-descent", "gradient descent, shared noise", 64, 0.7, _HINGE, _summed, averages=False),
    Recipe("ra-admm", "ADMM, random aggregators", 50, 0.7, _HINGE, _random_admm, usual=False),
    Recipe("ra-gd", "gradient descent, random aggregators", 50, 0.7, _HINGE, _random_descent, usual=False),
    Recipe("rcd", "random coordinate descent", 50, 0.7, _HINGE, _coordinates, usual=False),
    Recipe("token-gd", "gradient descent on a token", 50, 0.7, _HINGE, _token_descent, usual=False),
    *(
        Recipe(
            name,
            title,
            1,
            0.7,
            _HINGE,
            partial(_held_by_one, accelerated=accelerated),
            averages=False,
            single=True,
            usual=False,
        )
        for name, title, accelerated in (
            ("dp-admm", "DP-ADMM with a lasso", False),
            ("dp-accadmm", "accelerated DP-ADMM with a lasso", True),
        )
    ),
    *(
        Recipe(
            name,
            title,
            1,
            0.7,
            _HINGE,
            partial(_summed_composite, accelerated=accelerated),
            kind="shared-dp-admm",
            averages=False,
            usual=False,
        )
        for name, title, accelerated in (
            ("shared-dp-admm", "DP-ADMM with a lasso, shared noise", False),
            ("shared-dp-accadmm", "accelerated DP-ADMM with a lasso, shared noise", True),
        )
    ),
)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _RECIPES}


def recommended(
    label: Label,
    sizes: Sequence[int] | np.ndarray | None = None,
    graph: Graph | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    reserve: Reserve | None = None,
) -> str:
    """The name of the method for these public facts, by benchmarks/tuning.py, tuning_members.py and tuning_labels.py.

    label : what the labels are
    sizes, graph : how many rows each member has, and who talks to whom; five members of many rows, if not given
    epsilon, delta : the total budget
    reserve : given if the members share the noise
    """
    if reserve is not None:
        return "shared-descent"
    if (sizes is not None and len(sizes) == 1) or (graph is not None and graph.agents == 1):
        return "gradient-descent"  # one holder of all records has nobody to agree with
    if isinstance(label, Classes):
        # The noise of recycled ADMM has to cover the curvature of the loss, too, which costs much where rows are few.
        few = sizes is not None and (len(sizes) > _FEW_MEMBERS or float(np.mean(sizes)) < _MANY_ROWS)
        return "pvp" if few else "mr-admm"
    return "gradient-descent" if isinstance(label, Multiclass) else "pvp"
