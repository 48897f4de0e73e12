"""What the server that forks agents has ready: compiled kernels, the accountant, and all modules of an
agent. That takes seconds; a fork none.

One agent at a time, so that no thread is started before the fork."""

from collections import Counter

from conftest import make_parts

import tacit
import tacit.agent.membership.absence
import tacit.agent.participant
import tacit.agent.run
import tacit.agent.store
from tacit.privacy import filters
from tacit.privacy.events import ObjectiveGaussian
from tacit.privacy.ledger import Cap

for size in (7, 40):  # fewer and more rows than features: both kernels
    one = tacit.Problem(make_parts(sizes=(size,)), l2=0.5)
    one.argmin(linear=0, weight=0, centre=0)
    one.gradient(one.optimum())
for event in (tacit.Gaussian(20.0), ObjectiveGaussian(20.0, 0.01)):
    filters.epsilon(Counter({event: 3}), Counter(), Cap(10.0, 1e-5))
