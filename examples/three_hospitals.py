"""Three hospitals of different size fit one model; compare with pooling everything and with staying alone.

python examples/three_hospitals.py
"""

import numpy as np

import tacit

rng = np.random.default_rng(1)
truth = rng.normal(size=10)
parts = []
for rows in (40, 120, 400):
    X = rng.normal(size=(rows, 10))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    parts.append((X, np.where(X @ truth + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)))

sizes = np.array([len(y) for _, y in parts])
problem = tacit.Problem(parts, scale=sizes / sizes.mean(), l2=0.01)  # every row counts alike
graph = tacit.Graph.path(3)  # the first and the third never talk to each other
run = tacit.simulate(tacit.algorithms.ConsensusADMM(penalty=0.05), problem, graph, rounds=500, tolerance=1e-6)

optimum = problem.optimum()
print(f"{run.rounds} rounds, {run.history['bytes'][-1]:,.0f} bytes; private: {run.private}")
print(f"distance to the pooled optimum: {np.linalg.norm(run.model - optimum) / np.linalg.norm(optimum):.1e} (relative)")
for i, f in enumerate(problem.argmin(linear=0, weight=0, centre=0)):
    print(f"hospital {i} alone: {np.linalg.norm(f - optimum) / np.linalg.norm(optimum):.2f}")
