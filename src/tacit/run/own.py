"""A method with parameters of one's own, in place of those that a recipe chooses."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.algorithms.hyper import Geometric
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.data.columns import Label
from tacit.errors import GraphError, InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.plan import calibrate
from tacit.run.label_losses import exact_loss
from tacit.run.parts import METHODS, read, written
from tacit.run.setting import NOISE, ticks_a_round
from tacit.run.share import share_event
from tacit.run.spec import RunSpec

if TYPE_CHECKING:
    from tacit.run.request import Request

LAWS: dict[str, type[Pure] | type[Gaussian]] = {"gaussian": Gaussian, "pure": Pure}
_ROUNDS, _L2 = 50, 1e-5
_STEEPEST = 100.0  # the logarithm of the largest penalty


def with_noise(
    asked: Request, label: Label, sizes: Sequence[int] | np.ndarray, dimension: int, graph: Graph, radius: float
) -> RunSpec:
    """A method with noise, and settings of one's own: what is not said is what the method's class says."""
    values, reserve = {"kind": asked.kind} | parameters(asked), asked.trust.reserve
    kind, law = METHODS[asked.kind], LAWS[asked.law or "gaussian"]
    needs = {field.name for field in fields(kind) if field.default is MISSING}
    known = {field.name for field in fields(kind)}
    if asked.penalty is not None:
        values |= {"penalty": asked.penalty} if "penalty" in known else {"step": 1 / asked.penalty}
    usual = {"penalty": 1.0, "dual_step": asked.penalty or 1.0, "step": 1.0, "mixing": graph.mixing}
    values = {name: usual[name] for name in usual if name in needs and name not in values} | values
    if reserve is not None:
        values |= reserve._asdict()
    scale, l2 = 1.0 if asked.scale is None else asked.scale, _L2 if asked.l2 is None else asked.l2
    loss, budget = exact_loss(asked.loss, label), asked.budget
    draft = RunSpec(METHODS["admm"](), 1, loss, graph, l2, radius, budget, asked.trust, scale=scale, count=asked.count)
    facts = draft.facts(sizes, dimension)

    def made(step: Any) -> Any:  # the budget of a noisy step
        if reserve is None:
            return read(values | {"budget": written(step)}, METHODS, "the method")
        from tacit.algorithms.summed import share_deviation

        deviation = share_deviation(facts, step, colluders=reserve.colluders, dropouts=reserve.dropouts)
        return read(values | {"deviation": deviation}, METHODS, "the method")

    noisy = any(values.get(name) is not None for name in NOISE)
    first = read(values, METHODS, "the method") if noisy else made(Gaussian(1.0))
    rounds = (_ROUNDS if asked.rounds is None else asked.rounds) * ticks(first, graph)
    _check_growth(first, rounds)
    if noisy or budget is None:
        return replace(draft, method=first, rounds=rounds)
    before = (share_event(budget.epsilon, budget.delta),) if asked.count else ()
    method = calibrate(
        made,
        facts,
        graph,
        rounds + asked.trust.dropouts,
        epsilon=budget.epsilon,
        delta=budget.delta,
        law=law,
        before=before,
    )
    return replace(draft, method=method, rounds=rounds)


def parameters(asked: Request) -> dict[str, Any]:
    """Parameters as data, from texts such as NAME=VALUE. Refuses one that is given twice, also as the penalty."""
    found: dict[str, Any] = {}
    for text in asked.own:
        name, equals, _ = text.partition("=")
        try:
            value = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            advice = "a text needs quotation marks, and others for the shell: 'noise_on=\"output\"'"
            raise InputError(
                f"a parameter is NAME=VALUE, with a value as in TOML; not {text!r}: {error}; {advice}"
            ) from None
        if not equals or list(value) != [name.strip()] or name.strip() == "kind":
            raise InputError(f"a parameter is NAME=VALUE, such as gamma=0.3; not {text!r}")
        if found.keys() & value.keys():
            raise InputError(f"{name.strip()} is given twice: leave one out")
        found |= value
    if asked.own and asked.penalty is not None:
        name = "penalty" if "penalty" in {field.name for field in fields(METHODS[asked.kind])} else "step"
        if name in found:
            raise InputError(f"the penalty says what {name} is, too: leave one of them out")
    return found


def changed(method: Algorithm, values: dict[str, Any]) -> Algorithm:
    """The method with other values of some parameters."""
    made: Algorithm = read(written(method) | values, METHODS, "the method") if values else method
    return made


def ticks(method: Algorithm, graph: Graph) -> int:
    """How many ticks make a round. Refuses a graph on which the method cannot run."""
    try:
        return ticks_a_round(method, graph)
    except GraphError as error:
        advice = "; take the method w-admm, or another graph" if graph.agents > 1 else ""
        raise GraphError(f"{error}{advice}") from None


def _check_growth(method: Any, rounds: int) -> None:
    grown = getattr(method, "penalty", None)
    if not isinstance(grown, Geometric) or grown.cap is not None:
        return
    if math.log(grown.first) + rounds * math.log(grown.ratio) > _STEEPEST:
        raise InputError(f"after {rounds} rounds a penalty of {grown.first:g} is too large with ratio {grown.ratio:g}")
