"""What helps a private model of a rare event: the public share as an offset, a noisy count, class weights, or nothing.

    python benchmarks/rare_events.py

The made-up records of `benchmarks/labels.py` with 6% positives: all 40,000, or the first 8,000. Five members on a ring,
(1, 1e-5), five seeds, `mr-admm`. It prints the mean AUC, how much of the exact model's AUC above one half is left, and
how many of the held-out records are predicted positive.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from labels import AGENTS, DELTA, SEEDS, rare

import tacit
from tacit.data import Classes, partition
from tacit.run.budget import Budget
from tacit.run.metrics import TwoClasses
from tacit.run.recipes import recommended
from tacit.run.request import Request
from tacit.run.training import hold_out, train, train_privately

SHARE = 0.06
BALANCED = (0.5 / (1 - SHARE), 0.5 / SHARE)


def main() -> None:
    """Prints the table."""
    data, schema = rare()
    label, graph = schema.label, tacit.Graph.ring(AGENTS)
    assert isinstance(label, Classes)
    plain = replace(label, positive_share=None)
    ways = {
        "nothing": (plain, False),
        "the public share, as an offset": (label, False),
        "a noisy count": (plain, True),
        "balanced class weights": (replace(plain, weights=BALANCED), False),
        "both": (replace(label, weights=BALANCED), False),
    }
    print("| records | what the recipe knows | AUC | of the exact model's | predicted positive |")
    print("| --- | --- | --- | --- | --- |")
    for records in (len(data), 8000):
        some = data.take(np.arange(records))
        divisions = [hold_out(partition.equal(records, AGENTS, seed), 0.1, seed) for seed in range(SEEDS)]
        exact = []
        for parts, held in divisions:
            exactly = Request().on(replace(schema, label=plain), parts, graph)
            exact.append(train(exactly, some, schema, parts, test=some.take(held)).together.measured)
        best = float(np.mean([m.auc for m in exact if isinstance(m, TwoClasses) and m.auc is not None]))
        print(f"| {records:,} | (exact, no privacy) | {best:.4f} | 1 | {_positives(exact):.1%} |", flush=True)
        for name, (known, count) in ways.items():
            mine = replace(schema, label=known)
            found = [
                train_privately(
                    Request(Budget(1.0, DELTA), method=recommended(known), count=count).on(mine, parts, graph),
                    some,
                    mine,
                    parts,
                    noise=tacit.SeededNoise(seed),
                    test=some.take(held),
                ).measured
                for seed, (parts, held) in enumerate(divisions)
            ]
            auc = float(np.mean([m.auc for m in found if isinstance(m, TwoClasses) and m.auc is not None]))
            left = (auc - 0.5) / (best - 0.5)
            print(f"| {records:,} | {name} | {auc:.4f} | {left:.3f} | {_positives(found):.1%} |", flush=True)


def _positives(found: list[Any]) -> float:
    return float(np.mean([m.positives_predicted / m.records for m in found]))


if __name__ == "__main__":
    main()
