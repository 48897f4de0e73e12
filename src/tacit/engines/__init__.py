"""Where many independent pieces of work run: in this process, in several, or on a Ray cluster.

local   `Local`: processes on this machine
ray     `Ray`: tasks on a Ray cluster, which may have many machines
work    what both hand to a worker, and the two names that callers need: `Engine`, `Workers`

An engine says where; `engine.open()` starts its workers, and `workers.map(function, items)` gives the results in the
order of the items. The results are the same for every engine and every number of jobs: BLAS, whose sums depend on the
number of its threads, has one thread everywhere.
"""

from tacit.engines.local import Local
from tacit.engines.ray import Ray
from tacit.engines.work import Engine, Workers

__all__ = ["Engine", "Local", "Ray", "Workers"]
