"""What an agent has loaded when its run begins.

The server that forks the agents of `tacit federation demo` imports this module. So an agent starts in a fraction of a
second, and shares most of its memory with the others.
"""

import gc
from importlib import import_module

import numpy as np
from scipy.sparse import csr_array

from tacit.core.losses import HuberHinge
from tacit.core.problem import Problem

for _module in (
    "tacit.cli.agent",
    "tacit.cli.federation_demo",
    "tacit.agent.participant",
    "tacit.agent.run",
    "tacit.agent.certificate.trained_model",
    "tacit.privacy.fast_noise",
    "scipy.sparse.csgraph",
    "asyncio",
):
    import_module(_module)

for _X in (np.eye(2), csr_array(np.eye(2))):  # kernels for one agent: they start no thread
    _problem = Problem([(_X, [1.0, -1.0])], loss=HuberHinge(), l2=1.0)
    _problem.gradient(_problem.optimum())

gc.freeze()  # else the first collection in an agent would copy the memory that it shares
