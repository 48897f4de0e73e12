"""Compiles the kernels that most tests use, into numba's cache: `python compile_kernels.py dense` or `csr`."""

import sys

from conftest import make_parts

import tacit

parts = make_parts(sparse=sys.argv[1] == "csr")  # fewer and more rows than features: both solvers
problem = tacit.Problem(parts, l2=0.5)
problem.value(problem.gradient(problem.optimum()))
for algorithm in (tacit.algorithms.ConsensusADMM(penalty=1.0), tacit.algorithms.IncrementalADMM(penalty=1.0)):
    tacit.simulate(algorithm, problem, tacit.Graph.ring(problem.agents), rounds=2)
