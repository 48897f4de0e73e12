"""The model of a finished run: everything in its file but the weights follows from the federation file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from tacit.agent.documents import ANY, Fault, differences, misfits, printable, shown
from tacit.agent.federation import Federation
from tacit.agent.guarantee import guaranteed
from tacit.errors import TacitError
from tacit.run.budget import USUAL_DELTA
from tacit.run.model import Model
from tacit.run.training import how, without_budget


def digest(weights: np.ndarray) -> str:
    """The SHA-256 of the weights, which the report names."""
    return sha256(np.ascontiguousarray(weights, dtype="<f8").tobytes()).hexdigest()


def model_of(federation: Federation, member: str, weights: np.ndarray) -> Model:
    """The model with which a member ends a run."""
    setting, budget = federation.setting, federation.spec.budget
    training = how(setting, federation.rounds, federation.names) | {
        "without": federation.absent,
        "federation": federation.run,
        "member": member,
    }
    if budget is None:
        statement = without_budget(setting.guarantee(USUAL_DELTA))
        privacy: dict[str, Any] = {"private": False, "statement": statement}
    else:
        privacy = {
            "private": True,
            "statement": f"({budget.epsilon:g}, {budget.delta:g})-differentially private for every record of every "
            "member, one record replaced by another of the same member",
            "epsilon": budget.epsilon,
            "delta": budget.delta,
        }
        if budget.reason:
            privacy["delta was allowed because"] = budget.reason
        if federation.reserve is not None:
            found = guaranteed(federation.budgeted)
            privacy["statement"] += f", {found.against}"
            privacy |= found.as_plain()
    return Model(weights, federation.schema, setting.facts.loss, training, privacy)


def model_faults(plain: Any, federation: Federation, digests: Mapping[str, str]) -> list[Fault]:
    """Everything in a model file that is not as a member's model of this run must be. `digests` are the digests of the
    weights by member, from signed reports."""
    if found := misfits(plain, {"weights": ANY, "training": ANY} | dict.fromkeys(plain, ANY)):
        return found
    training = plain["training"]
    member = training.get("member") if isinstance(training, dict) else None
    if not (isinstance(member, str) and member in digests):
        return [Fault("training.member", f"must be a member of the run, not {shown(member)}")]
    try:
        weights = _numbers(plain["weights"])
        right = json.loads(json.dumps(model_of(federation, member, weights).as_plain()))
    except (TacitError, ValueError, TypeError, OverflowError) as error:
        return [Fault("weights", f"are not the weights of such a model: {printable(error)}")]
    found = differences(
        {key: value for key, value in plain.items() if key != "weights"},
        {key: value for key, value in right.items() if key != "weights"},
        "",
        "by the federation file",
    )
    if digest(weights) != digests[member]:
        owners = [name for name, each in digests.items() if each == digest(weights)]
        whose = f"those of {', '.join(owners)}" if owners else "in no report"
        found.append(Fault("weights", f"are not the weights that {member} has signed; they are {whose}"))
    return found


def _numbers(weights: Any) -> np.ndarray:
    """The weights of a file, if they are numbers. (numpy would take true for 1 and "1" for 1.)"""
    rows = weights if isinstance(weights, list) else [None]
    for row in rows:
        if any(type(number) not in (int, float) for number in (row if isinstance(row, list) else [row])):
            raise ValueError("a weight must be a number")
    return np.asarray(weights, dtype=float)
