"""An audit: run the real code on two neighbouring data sets, and bound from below what it reveals.

First an event E of the output is fixed, on separate samples. Then fresh samples count how often E happens under
either data set. If a mechanism is epsilon-differentially private, P(E) <= exp(epsilon) P'(E); bounds of Clopper and
Pearson on both frequencies turn that into a lower bound on epsilon, which holds with the stated confidence whatever the
mechanism does inside. For an (epsilon, delta) claim, P(E) - delta takes the place of P(E). An audit can only show that
a claim is false. `tests/planted_privacy_bugs.py` lists the bugs that audits must catch.

`guess` has the statistic, a discriminant that is fitted to transcripts, and the bound for claims of a Gaussian
mechanism; `runs` makes transcripts of one agent's runs, `shared` those of a coalition that sees totals, `steps` audits
a solver. `tacit.workflows.audits` has an audit for every private method, by name.
"""

from __future__ import annotations

from tacit.privacy.audit.bounds import Audited, Sampler, audit, epsilon_lower_bound, mu_lower_bound
from tacit.privacy.audit.guess import Discriminant, audit_transcripts
from tacit.privacy.audit.runs import Case, audit_run
from tacit.privacy.audit.shared import BUGS, audit_shared
from tacit.privacy.audit.steps import audit_solver

__all__ = [
    "BUGS",
    "Audited",
    "Case",
    "Discriminant",
    "Sampler",
    "audit",
    "audit_run",
    "audit_shared",
    "audit_solver",
    "audit_transcripts",
    "epsilon_lower_bound",
    "mu_lower_bound",
]
