"""An audit: run the real code on two neighbouring data sets, and bound from below what it reveals.

First an event E of the output is fixed, on separate samples. Then fresh samples count how often E happens under
either data set. If a mechanism is epsilon-differentially private, P(E) <= exp(epsilon) P'(E); bounds of Clopper and
Pearson on both frequencies turn that into a lower bound on epsilon, which holds with the stated confidence whatever the
mechanism does inside. For an (epsilon, delta) claim, P(E) - delta takes the place of P(E). An audit can only show that
a claim is false. `tests/mutants` lists the bugs that audits must catch.

`guess` has the statistic, a discriminant that is fitted to transcripts, and the bound for claims of a Gaussian
mechanism; `runs` makes transcripts of one agent's runs, `shared` those of a coalition that sees totals, `papers` audits
methods with the noise of the papers, `steps` a solver. `tacit.lab.audit.named` has an audit for every private method,
by name.
"""

from __future__ import annotations

import warnings
from typing import Any

from tacit.lab.audit import papers
from tacit.lab.audit.guess import Discriminant, audit_transcripts
from tacit.lab.audit.lower_bounds import Audited, Sampler, audit, epsilon_lower_bound, mu_lower_bound
from tacit.lab.audit.papers import audit_dual_perturbed, audit_primal_perturbed
from tacit.lab.audit.runs import Case, audit_run
from tacit.lab.audit.shared import BUGS, audit_shared
from tacit.lab.audit.steps import audit_solver

__all__ = [
    "BUGS",
    "Audited",
    "Case",
    "Discriminant",
    "Sampler",
    "audit",
    "audit_dual_perturbed",
    "audit_primal_perturbed",
    "audit_run",
    "audit_shared",
    "audit_solver",
    "audit_transcripts",
    "epsilon_lower_bound",
    "mu_lower_bound",
]

# public in version 0.1.0
_BEFORE = {"audit_gaussian": "dvp --rounds 1", "audit_token": "pi-admm", "AUDITS": "NAME"}  # a method  # nosec B105


def __getattr__(name: str) -> Any:
    if name not in _BEFORE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} will go: take the command `tacit audit {_BEFORE[name]}`", DeprecationWarning, stacklevel=2)
    if name != "AUDITS":
        return getattr(papers, name)
    return {
        "dvp": audit_dual_perturbed,
        "dvp-gaussian": papers.audit_gaussian,
        "pi-admm2": papers.audit_token,
        "solver": audit_solver,
        "shared-descent": audit_shared,
    }
