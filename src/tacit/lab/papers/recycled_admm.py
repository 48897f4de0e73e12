"""Zhang, Khalili, Liu, "Recycled ADMM: Improving the Privacy and Accuracy of Distributed Algorithms", section VIII.

Fig. 3 and 4, with noise. `recycled_admm_runs` has the constants; `recycled_admm_exact` has Fig. 1 and 2,
`recycled_admm_same_total` Fig. 5, and `recycled_admm_output` section VII.B. The text gives neither the gammas of Fig. 3
nor the number of iterations (100): we chose them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tacit.lab.papers.experiment import Claim, Figures, Lab, Panel, PaperFigure, Runs, Series, falling, listed
from tacit.lab.papers.recycled_admm_exact import fig1, fig2
from tacit.lab.papers.recycled_admm_output import output
from tacit.lab.papers.recycled_admm_runs import ERROR, FIVE, GROWTHS, ITERATIONS, losses_beside_plain, mr
from tacit.lab.papers.recycled_admm_same_total import fig5


def fig3(lab: Lab) -> PaperFigure:
    """Private MR-ADMM with several gammas."""
    T, gammas = lab.size.rounds, (0.1, 0.5, 2.0) if lab.size.quick else (0.1, 0.5, 1.0, 2.0, 10.0)
    panels, claims, errors = [], [], []
    for letter, alpha in (("a", 1.0), ("b", 2.0)):
        runs = {g: lab.runs(mr(alpha, 1.01, gamma=g), FIVE, T) for g in gammas}
        series = [Series.over_rounds(f"γ = {g:g}", run.loss) for g, run in runs.items()]
        panels.append(losses_beside_plain(lab, f"α = {alpha:g}", series, letter))
        errors.append(Series.of(f"α = {alpha:g}", gammas, _finals(runs, "error"), "o-"))
        for where, what, name in ((f"Fig. 3({letter})", "loss", "loss"), ("Fig. 3(c)", "error", "error rate")):
            every = _finals(runs, what)
            means, widest = every.mean(axis=0), np.ptp(every, axis=0).max()
            spread = np.ptp(every[:, np.array(gammas) <= 2], axis=1)  # of each seed
            text = f"varying γ from 0.1 to 2 does not affect the {name} much (less than chance does), α = {alpha:g}"
            measured = (
                f"mean {name} {listed(means, '.4f')} at γ = {listed(gammas, 'g')}: up to 2, those of one seed "
                f"differ by up to {spread.max():.4f}, the runs of one γ by up to {widest:.4f}"
            )
            claims.append(Claim(where, "paper", text, measured, spread < widest))
    panels.append(Panel("the error rate", "γ", ERROR, errors, log_x=True, letter="c"))
    return PaperFigure("The effect of γ on private MR-ADMM, η(2k-1) = 1.01ᵏ", panels, claims)


def fig4(lab: Lab) -> PaperFigure:
    """Private MR-ADMM with penalties that grow at several speeds, and its privacy bound."""
    T, growths = lab.size.rounds, GROWTHS[::2] if lab.size.quick else GROWTHS
    losses, bounds, errors, claims, gains = [], [], [], [], []
    paper = partial(Claim, "Fig. 4", "paper")
    for letter, alpha in (("a", 2.0), ("b", 1.0)):
        methods = {q: mr(alpha, q) for q in growths}
        runs = {q: lab.runs(method, FIVE, T) for q, method in methods.items()}
        spent = {q: lab.spending(method, FIVE, T) for q, method in methods.items()}
        series = [Series.over_rounds(f"q = {q:g}", run.loss) for q, run in runs.items()]
        losses.append(losses_beside_plain(lab, f"α = {alpha:g}", series, letter))
        series = [Series.over_rounds(f"q = {q:g}", P) for q, P in spent.items()]
        below = {"a": "c", "b": "d"}[letter]
        bounds.append(Panel(f"α = {alpha:g}", ITERATIONS, "P(t), the paper's bound", series, letter=below))
        errors.append(Series.of(f"α = {alpha:g}", growths, _finals(runs, "error"), "o-"))
        final = _finals(runs, "loss")
        totals = [P[-1] for P in spent.values()]
        gains.append(final[:, 0] - final[:, -1])
        claims += [
            paper(
                "the faster the penalty grows (1.01 to 1.05), the better the accuracy and the smaller P, "
                f"α = {alpha:g}",
                f"losses {listed(final.mean(axis=0), '.4f')}, P {listed(totals, '.2f')}",
                falling(final) & falling(totals),
            ),
            paper(
                "a growing penalty stabilises: a run is nearer to the mean of the runs at 1.05 than at 1.01, "
                f"α = {alpha:g}",
                f"ranges over the runs {listed(np.ptp(final, axis=0), '.4f')}",
                np.abs(final[:, -1] - final[:, -1].mean()) < np.abs(final[:, 0] - final[:, 0].mean()),
            ),
            Claim(
                "Fig. 4(e)",
                "paper",
                f"the error rate is lower with the fastest penalty than with the slowest, α = {alpha:g}",
                f"mean error rates {listed(_finals(runs, 'error').mean(axis=0), '.4f')} at q = {listed(growths, 'g')}",
                _finals(runs, "error")[:, -1] < _finals(runs, "error")[:, 0],
            ),
        ]
    text = "the improvement is greater with more noise (α = 1 against 2)"
    means = [gain.mean() for gain in gains]
    measured = f"from 1.01 to 1.05 the mean loss falls by {means[1]:.4f} at α = 1 and by {means[0]:.4f} at α = 2"
    claims.append(paper(text, measured, gains[1] > gains[0]))
    panels = [*losses, *bounds, Panel("the error rate", "q", ERROR, errors, letter="e")]
    return PaperFigure("The effect of the penalty's growth η(2k-1) = qᵏ on private MR-ADMM, γ = 0.5", panels, claims)


FIGURES: Figures = {"fig1": fig1, "fig2": fig2, "fig3": fig3, "fig4": fig4, "fig5": fig5, "output": output}


def _finals(runs: dict[float, Runs], what: str) -> np.ndarray:
    """(runs, settings) the last loss or error."""
    return np.stack([getattr(run, what)[:, -1] for run in runs.values()], axis=1)
