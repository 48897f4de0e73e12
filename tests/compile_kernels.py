"""Compiles the kernels that most tests use, into numba's cache: `python compile_kernels.py dense` or `csr`."""

import sys

import numpy as np
from conftest import make_parts

import tacit


def main(kind):
    problem = tacit.Problem(make_parts(sparse=kind == "csr"), l2=0.5)  # few and many rows: both solvers
    problem.value(problem.gradient(problem.optimum()))
    for algorithm in (tacit.algorithms.ConsensusADMM(penalty=1.0), tacit.algorithms.IncrementalADMM(penalty=1.0)):
        tacit.simulate(algorithm, problem, tacit.Graph.ring(problem.agents), rounds=2)
    tacit.Problem(make_parts(sizes=(301,), d=300, sparse=kind == "csr"), l2=0.5).optimum()  # many features: newton_cg
    if kind == "csr":  # the same kernels go over dense and sparse numbers
        tacit.losses.Logistic().value(np.zeros(1), np.ones(1))


if __name__ == "__main__":
    main(sys.argv[1])
