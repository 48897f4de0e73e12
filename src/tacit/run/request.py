"""What somebody asks for. Every front fills in a `Request` and resolves it here: the same wish gets the same run, or
the same refusal.

    >>> from tacit.data.columns import Classes
    >>> label = Classes("died", positive=("yes",), negative=("no",))
    >>> asked = Request(budget=Budget(1.0, 1e-5))
    >>> found = asked.resolved(label, sizes=[800] * 5, dimension=10, graph=Graph.ring(5))
    >>> found.name, round(found.guarantee(1e-5).epsilon, 3)
    ('pvp', 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import Any

import numpy as np

from tacit.core.algorithm import traits
from tacit.core.constants import RADIUS
from tacit.core.graph import Graph
from tacit.data import Schema
from tacit.data.columns import Classes, Label
from tacit.errors import InputError, number, whole
from tacit.run import exact, own
from tacit.run.budget import Budget
from tacit.run.label_losses import LOSSES, exact_loss
from tacit.run.model import fits
from tacit.run.option import check_types, option
from tacit.run.parts import METHODS, name_of
from tacit.run.recipes import RECIPES, recommended
from tacit.run.setting import NOISE, Setting, check_classes
from tacit.run.spec import RunSpec
from tacit.run.trust import LOCAL, Trust

_SHOWN = 10  # members whose rows an error lists
_SAME = 1e-6  # how far the numbers of two searches may lie apart, relative to them
_CALLED = {"budget": "epsilon", "trust": "colluders and robust", "count": "the noisy share", "own": "--set"}

_METHOD = f"One of: {', '.join(exact.ALGORITHMS)}; with --epsilon one of: {', '.join(RECIPES)}."
_SET = (
    """A parameter of the method, with a value as in TOML: gamma=0.3, 'noise_on="output"', or """
    """'penalty={kind="geometric", first=1, ratio=1.04}'. A name that the method does not have, such as --set x=1, """
    "lists all that it has. May be repeated. With --epsilon the noise is then calibrated for the method with these "
    "settings."
)
_PENALTY = (
    "How strongly neighbours are pulled together (0.001 by default, 0.01 for numbers). For methods that follow the "
    "gradient one over the step (by default a bound on the curvature)."
)
_LOSS = (
    f"One of: {', '.join(LOSSES)}. By default logistic for two classes, multinomial for more, squared for numbers; "
    "with --epsilon alone what the method's recipe says."
)
_SPEC = "A file that says everything about the run (tacit plan --spec-out), in place of all options of the method."


def _spec_file(text: str) -> RunSpec:
    return RunSpec.from_toml(text)


@dataclass(frozen=True)
class Request:
    """What somebody asks for; None is left to the recipes. The settings that follow `own` are for runs without a
    budget, and for methods with parameters of one's own."""

    budget: Budget | None = None
    trust: Trust = LOCAL
    count: bool = False  # whether the budget also pays for a noisy count of the positives
    method: str | None = option(None, _METHOD)
    own: tuple[str, ...] = option((), _SET, name="--set", metavar="NAME=VALUE")
    penalty: float | None = option(None, _PENALTY)
    loss: str | None = option(None, _LOSS)
    l2: float | None = option(None, "Regularisation of each agent: l2/2 times the squared norm of the model (3e-5).")
    rounds: int | None = option(None, "The largest number of rounds (1000; with --set and --epsilon 50).")
    tolerance: float | None = option(None, "Stop when all residuals, primal and dual, are below this (1e-4).")
    scale: float | None = option(None, "C, the weight of an agent's loss (1).")
    law: str | None = option(None, "With --epsilon and --set: the noise is gaussian (by default) or pure.")
    spec: RunSpec | None = option(  # noqa: RUF009 (a field)
        None, _SPEC, metavar="FILE", parser=_spec_file
    )

    def __post_init__(self) -> None:
        check_types(self, budget=(Budget, NoneType), trust=(Trust,), spec=(RunSpec, NoneType))
        if isinstance(self.own, str) or not all(isinstance(text, str) for text in self.own):
            raise InputError(f"own is a list of texts, such as ['gamma=0.3'], not {self.own!r}")
        object.__setattr__(self, "own", tuple(self.own))
        if not isinstance(self.count, bool):
            raise InputError(f"count is true or false, not {self.count!r}")
        if self.method is not None and (not isinstance(self.method, str) or self.method.endswith(".toml")):
            raise InputError(
                "method is a name; the file of a run is given with --spec, and in Python as RunSpec.from_toml(file), "
                f"not {self.method!r}"
            )
        if self.spec is not None:
            self._check_spec()
        elif self.budget is None:
            self._check_without_budget()
        elif self.method is not None and self.method not in RECIPES:
            raise InputError(f"with epsilon, method is one of {', '.join(RECIPES)}; not {self.method!r}")
        elif self.method is not None:
            RECIPES[self.method].check_reserve(self.trust.reserve)
        elif self.settles:
            raise InputError(
                f"with epsilon the settings follow from the budget: leave out {self._settings[0]}, or name the method "
                "that it is about"
            )
        for name, zero in (("penalty", False), ("l2", True), ("tolerance", False), ("scale", False)):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, number(name, value, zero=zero))
        if self.rounds is not None:
            object.__setattr__(self, "rounds", whole("rounds", self.rounds, 1))
        if self.settles and not self.own and self.penalty is None:
            raise InputError(
                f"{self._settings[0]} is for a run with settings of your own: leave it out, or give a penalty, too, or "
                "a parameter of the method"
            )
        if self.budget is not None and self.tolerance is not None:
            raise InputError("a private run does not stop early, which would tell about records: leave out tolerance")
        if self.law is not None and self.law not in own.LAWS:
            raise InputError(f"law must be one of {', '.join(own.LAWS)}; not {self.law!r}")
        if self.law is not None and self.budget is None:
            raise InputError("law says how a budget is spent: give epsilon, too")
        if self.law is not None and self.method is not None:
            able = [name for name, law in own.LAWS.items() if law in traits(METHODS[self.kind]).laws]
            if self.law not in able:
                raise InputError(f"{self.method}: law must be one of {', '.join(able)}; not {self.law!r}")
        if self.trust.robust is not None and self.method is not None and traits(METHODS[self.kind]).token:
            raise InputError("robust listening compares rows: it is for methods in which all members speak at once")

    def _check_spec(self) -> None:
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        if given != ["spec"]:
            first = _CALLED.get(given[0], given[0])
            raise InputError(f"the file of a run says everything about it: leave out {first}, or change the file")

    def _check_without_budget(self) -> None:
        if self.trust.reserve is not None:
            raise InputError("colluders are about noise that members share: give epsilon, too")
        if self.count:
            raise InputError("a noisy count of the positives is paid for by a budget: give epsilon, too")
        noisy = any(text.partition("=")[0].strip() in NOISE for text in self.own)
        if self.method in RECIPES and self.method not in exact.ALGORITHMS and not noisy:
            raise InputError(
                f"{self.method} is private: give epsilon, or how much noise it adds; without any noise it runs from a "
                "file of a run that has no budget"
            )
        if self.method is not None and self.method not in exact.ALGORITHMS and not noisy:
            raise InputError(f"without epsilon, method is one of {', '.join(exact.ALGORITHMS)}; not {self.method!r}")
        if self.own and self.method is None:
            raise InputError(f"{self.own[0]} is about one method: name it")

    @property
    def total(self) -> Budget | None:
        """What the run may spend; None where nothing is private."""
        return self.budget if self.spec is None else self.spec.budget

    @property
    def trusted(self) -> Trust:
        """How much the members trust each other."""
        return self.trust if self.spec is None else self.spec.trust

    @property
    def counted(self) -> bool:
        """Whether the budget also pays for a noisy count."""
        return self.count if self.spec is None else self.spec.count

    @property
    def _settings(self) -> list[str]:
        """The settings of one's own that are given."""
        names = ("penalty", "loss", "l2", "rounds", "scale", "law")
        return [*self.own, *(name for name in names if getattr(self, name) is not None)]

    @property
    def settles(self) -> bool:
        """Whether a run with noise has settings of one's own, in place of those of a recipe."""
        noisy = self.budget is not None or (self.method in RECIPES and self.method not in exact.ALGORITHMS)
        return bool(noisy and self._settings)

    @property
    def kind(self) -> str:
        """Of the method that is asked for: some names are another method with some settings."""
        assert self.method is not None
        return RECIPES[self.method].kind if self.method in RECIPES else exact.ALGORITHMS[self.method].kind

    def check_label(self, label: Label) -> None:
        """Refuses a label for which the method has no proof, or the loss no meaning; before any record is read."""
        if self.spec is not None:
            check_records(self.spec, label)
            return
        if self.count and not isinstance(label, Classes):
            raise InputError("a share of positives is for a label of two classes")
        if self.budget is None or self.settles:
            loss = exact_loss(self.loss, label)
            if self.budget is not None and self.method is not None:
                check_classes(self.method, METHODS[self.kind], loss)
        elif self.method is not None:
            RECIPES[self.method].for_label(label)

    def resolved(
        self,
        label: Label,
        sizes: Sequence[int] | np.ndarray,
        dimension: int,
        graph: Graph,
        *,
        row_norm: float = 1.0,
        schema: str = "",
        radius: float | None = None,
    ) -> Setting:
        """All numbers of the run, from public facts alone.

        label : what the labels are
        sizes, dimension : the number of rows of each member, and of weights of a model
        graph : who talks to whom; a file of a run has its own
        row_norm : of the longest row that there can be
        schema : the digest of the schema, if there is one
        radius : models farther from zero are ignored; by default the recipe says
        """
        if self.spec is not None:
            return specified(self.spec, label, sizes, dimension, schema, row_norm)
        self.check_label(label)
        self.trust.check(graph)
        if self.budget is not None:
            self.budget.check(int(np.sum(sizes)))
        if self.settles:
            spec = own.with_noise(self, label, sizes, dimension, graph, RADIUS if radius is None else radius)
        elif self.budget is None:
            spec = self._exact(label, sizes, graph, row_norm, exact.RADIUS if radius is None else radius)
        else:
            budget, reserve = self.budget, self.trust.reserve
            name = self.method or recommended(label, sizes, graph, budget.epsilon, budget.delta, reserve)
            known = (sizes, dimension, graph, budget, self.trust)
            recipe = RECIPES[name].for_label(label)
            found = recipe.setting(*known, count=self.count, radius=radius, schema=schema)
            found.check()
            return found
        return Setting.of(replace(spec, schema=schema), sizes, dimension, row_norm)

    def on(self, schema: Schema, parts: Sequence[np.ndarray], graph: Graph) -> Setting:
        """The same for records of a schema, of which each member has these rows."""
        sizes, norm = [len(part) for part in parts], schema.longest_row
        return self.resolved(schema.label, sizes, schema.model_dimension, graph, row_norm=norm, schema=schema.digest)

    def _exact(
        self, label: Label, sizes: Sequence[int] | np.ndarray, graph: Graph, row_norm: float, radius: float
    ) -> RunSpec:
        """Exact values are exchanged, until all agree."""
        name, loss = self.method or "admm", exact_loss(self.loss, label)
        l2 = exact.L2 if self.l2 is None else self.l2
        penalty = self.penalty
        if penalty is None:
            penalty = exact.usual_penalty(name, loss, l2=l2, row_norm=row_norm, sizes=list(sizes))
        method = own.changed(exact.ALGORITHMS[name].make(penalty, graph), own.parameters(self))
        rounds = (exact.ROUNDS if self.rounds is None else self.rounds) * own.ticks(method, graph)
        tolerance = exact.TOLERANCE if self.tolerance is None else self.tolerance
        scale = 1.0 if self.scale is None else self.scale
        return RunSpec(method, rounds, loss, graph, l2, radius, None, self.trust, scale=scale, tolerance=tolerance)


def check_records(spec: RunSpec, label: Label, schema: str = "") -> None:
    """Refuses a run that is not about records with this label and this digest of a schema, and an unknown recipe."""
    if not fits(spec.loss, label):
        raise InputError(f"the loss {name_of(spec.loss)!r} of the run does not fit the label {label.column!r}")
    if spec.schema and schema and spec.schema != schema:
        raise InputError("the run was planned for records of another schema: plan it again, or take that schema")
    if spec.recipe and (spec.recipe not in RECIPES or spec.budget is None):
        raise InputError(f"there is no recipe {spec.recipe!r} for this run: delete the line recipe = ...")


def specified(
    spec: RunSpec,
    label: Label,
    sizes: Sequence[int] | np.ndarray,
    dimension: int,
    schema: str = "",
    row_norm: float = 1.0,
) -> Setting:
    """The setting of a run that is given as data. Refuses one that is not about such records, that costs more than its
    budget, that ends with a model for each member, or that claims numbers of a recipe which the recipe does not
    give."""
    check_records(spec, label, schema)
    method: Any = spec.method
    if name_of(method) == "sharing-admm" and not method.agrees:
        raise InputError(
            "this constraint lets members have different models, and a run from a file ends with one for all: run it "
            "from Python (tacit.simulate), where Run.estimate has them all"
        )
    setting = Setting.of(spec, sizes, dimension, row_norm)
    if not spec.recipe or spec.budget is None:
        return setting
    loss: Any = spec.loss  # with the offset and the weights that the label had
    recipe = replace(RECIPES[spec.recipe].for_label(label), loss=loss)
    known = (sizes, dimension, spec.graph, spec.budget, spec.trust)
    again = recipe.setting(*known, count=spec.count, radius=spec.radius, schema=spec.schema)
    if not _alike(spec.plain(), again.spec.plain()):
        raise InputError(
            f"the numbers of the run are not those of the recipe {spec.recipe!r} for {_rows(sizes)}: if you have "
            "changed one on purpose, delete the line recipe = ... of the file; if not, plan the run for these rows"
        )
    return replace(setting, recipe=recipe)


def _rows(sizes: Sequence[int] | np.ndarray) -> str:
    """The rows of the members, in the form of --rows where they are few."""
    if len(sizes) > _SHOWN:
        return f"{len(sizes):,} members with {sum(map(int, sizes)):,} rows"
    return f"--rows {','.join(str(int(size)) for size in sizes)}"


def _alike(one: Any, other: Any) -> bool:
    """Whether plain data are the same, but for the last digits of numbers, which a search may give on one machine and
    not on another."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_SAME)
    return bool(one == other)
