"""What 50 rounds cost under each accountant, as a table for docs/privacy.md.

python benchmarks/accountants.py
"""

from __future__ import annotations

from collections import Counter

from tacit.privacy.accounting import totals
from tacit.privacy.events import Event, Gaussian, Laplace, Pure

ROUNDS, DELTA = 50, 1e-5


def main() -> None:
    """Prints a Markdown table."""
    steps: list[Event] = [
        *(Pure(e) for e in (0.01, 0.1, 1.0)),
        *(Laplace(b) for b in (100.0, 10.0, 1.0)),
        *(Gaussian(s) for s in (100.0, 10.0, 1.0)),
    ]
    print(f"| one step, {ROUNDS} times, delta = {DELTA:g} | plain sum | distribution | Renyi | zCDP |")
    print("| --- | --- | --- | --- | --- |")
    for step in steps:
        t = totals(Counter({step: ROUNDS}), DELTA)
        cells = [
            f"{e:.4f}" if e is not None and e < 1e300 else "-" for e in (t.plain_sum, t.distribution, t.renyi, t.zcdp)
        ]
        name = f"{type(step).__name__}({next(iter(vars(step).values()))})"
        print(f"| `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
