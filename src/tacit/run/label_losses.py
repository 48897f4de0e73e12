"""Which losses fit a label, where nothing is private; for private runs, the recipe says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tacit.core.losses import HuberHinge, Logistic, Loss, PseudoHuber, Squared
from tacit.core.multinomial import Multinomial
from tacit.data.columns import Classes, Label, Multiclass, Target
from tacit.errors import InputError


def _of_classes(loss: Logistic | HuberHinge, label: Label) -> Loss:
    """The offset would change nothing: an exact model learns it. The weights do."""
    assert isinstance(label, Classes)
    return loss if label.weights is None else replace(loss, weights=label.weights)


def _of_several(label: Label) -> Loss:
    assert isinstance(label, Multiclass)
    return Multinomial(label.outputs, weights=label.weights or ())


_TWO = Classes("label", positive=("yes",), negative=("no",))


# By name: the labels that it fits, and the loss for such a label.
LOSSES: dict[str, tuple[tuple[type, ...], Callable[[Label], Loss]]] = {
    "logistic": ((Classes,), lambda label: _of_classes(Logistic(), label)),
    "huber": ((Classes,), lambda label: _of_classes(HuberHinge(), label)),
    "squared": ((Target, Classes), lambda label: Squared()),
    "pseudo-huber": ((Target,), lambda label: PseudoHuber()),
    "multinomial": ((Multiclass,), _of_several),
}


def exact_loss(name: str | None, label: Label = _TWO) -> Loss:
    """The loss of this name, or without a name the usual one for the label. Refuses one that does not fit.

    Without a label, it is for two classes that count alike.

    >>> exact_loss(None, Multiclass("ward", classes=("surgery", "medicine", "eyes")))
    Multinomial(3)
    """
    fitting = _fitting(label)
    if name is not None and name not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(LOSSES)}; not {name!r}")
    if name is not None and name not in fitting:
        raise InputError(
            f"the loss {name!r} does not fit the label {label.column!r}, which is of kind {label.kind!r}; take one of: "
            f"{', '.join(fitting)}"
        )
    return LOSSES[name or fitting[0]][1](label)


def usual(label: Label) -> str:
    """The name of the loss that a label has if nobody chooses one."""
    return _fitting(label)[0]


def _fitting(label: Label) -> list[str]:
    return [name for name, (kinds, _) in LOSSES.items() if isinstance(label, kinds)]
