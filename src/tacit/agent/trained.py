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
from tacit.agent.method import PrivateMethod
from tacit.errors import TacitError
from tacit.workflows.model import Model
from tacit.workflows.training import how


def digest(weights: np.ndarray) -> str:
    """The SHA-256 of the weights, which the report names."""
    return sha256(np.ascontiguousarray(weights, dtype="<f8").tobytes()).hexdigest()


def model_of(federation: Federation, member: str, weights: np.ndarray) -> Model:
    """The model with which a member ends a run."""
    setting, method = federation.setting, federation.method
    agents = [(each.name, each.rows) for each in federation.members]
    training = how(setting.algorithm, setting.facts.l2, federation.rounds, agents=agents, graph=federation.graph) | {
        "without": federation.absent,
        "federation": federation.run,
        "member": member,
    }
    privacy: dict[str, Any] = {"private": False, "statement": "not private: exact values were exchanged"}
    if isinstance(method, PrivateMethod):
        privacy = {
            "private": True,
            "statement": f"({method.epsilon:g}, {method.delta:g})-differentially private for every record of every "
            "member, one record replaced by another of the same member",
            "epsilon": method.epsilon,
            "delta": method.delta,
        }
    if method.shared:
        found = guaranteed(federation.agreed or federation)
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
