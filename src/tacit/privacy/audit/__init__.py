"""An audit: run the real code on two neighbouring data sets, and bound from below what it reveals.

First an event E of the output is fixed, on separate samples. Then fresh samples count how often E happens under
either data set. If a mechanism is epsilon-differentially private, P(E) <= exp(epsilon) P'(E); bounds of Clopper and
Pearson on both frequencies turn that into a lower bound on epsilon, which holds with the stated confidence whatever the
mechanism does inside. For an (epsilon, delta) claim, P(E) - delta takes the place of P(E). An audit can only show that
a claim is false. To show what it can detect, each audit comes with a bug that it must catch: the paper's own version,
or one that is planted here, in the audit, and is not a setting of any method.

The audit of shared noise (`audit_shared`) tests the claim of a Gaussian mechanism, which says more than one pair of
epsilon and delta: `mu_lower_bound`.
"""

from __future__ import annotations

from collections.abc import Callable

from tacit.privacy.audit.bounds import Audited, Sampler, audit, epsilon_lower_bound, mu_lower_bound
from tacit.privacy.audit.shared import BUGS, audit_shared
from tacit.privacy.audit.steps import audit_dual_perturbed, audit_gaussian, audit_solver, audit_token

__all__ = [
    "AUDITS",
    "BUGS",
    "Audited",
    "Sampler",
    "audit",
    "audit_dual_perturbed",
    "audit_gaussian",
    "audit_shared",
    "audit_solver",
    "audit_token",
    "epsilon_lower_bound",
    "mu_lower_bound",
]

AUDITS: dict[str, Callable[..., Audited]] = {
    "dvp": audit_dual_perturbed,
    "dvp-gaussian": audit_gaussian,
    "pi-admm2": audit_token,
    "solver": audit_solver,
    "shared-descent": audit_shared,
}
