"""What workers do in the tests of engines: processes find these functions by their module's name."""

import os
import time

import numpy as np
import threadpoolctl

from tacit.errors import NotConverged

ROWS = np.random.default_rng(0).normal(size=(300, 200))


def square(x):
    return x * x


def slowest_first(k):
    time.sleep(0.2 / (k + 1))
    return k


def threads(_):
    """How many threads the solvers and BLAS have."""
    blas = [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    return os.environ.get("NUMBA_NUM_THREADS"), set(blas)


def refuse(k):
    if k == 1:
        raise NotConverged("agent 3 stopped at a gradient norm of 0.5", reached=0.5)
    time.sleep(3600)


def killed(_):
    os.kill(os.getpid(), 9)


def sleep(folder):
    """Says who works, then takes long."""
    (folder / str(os.getpid())).touch()
    time.sleep(3600)


class Sum:
    """A function with data, which counts how often it came to this process."""

    loads = 0

    def __init__(self, rows):
        self.rows = rows

    def __setstate__(self, state):
        Sum.loads += 1
        self.__dict__ = state

    def __call__(self, k):
        return float((self.rows @ self.rows.T)[k].sum()), Sum.loads
