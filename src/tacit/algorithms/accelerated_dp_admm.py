"""DP-AccADMM of paper 001: DP-ADMM with Nesterov's momentum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.algorithms.dp_admm import DPADMM, State
from tacit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class AcceleratedDPADMM(DPADMM):
    """DP-AccADMM: paper 001, Algorithm 3. The round of `DPADMM` starts from (x_hat, u_hat) instead of (x, u), with

        theta_{t+1} = (1 + sqrt(1 + 4 theta_t^2))/2,   theta_1 = 1
        x_hat_t = x_t + (theta_t - 1)/theta_{t+1} (x_t - x_{t-1}),   and u_hat_t likewise                  (10)

    As printed (`restart=False`) it need not converge, even without noise. `restart` is that of Goldstein, O'Donoghue,
    Setzer and Baraniuk (the paper's [36], Algorithm 8). With the change of a round, in the metric of linearised steps,

        c_t = rho ||u_t - u_hat_{t-1}||^2 + ||x_t - x_hat_{t-1}||^2 / step

    momentum goes on while c_t < decrease * c_{t-1}; else the next round starts from x_{t-1}, u_{t-1} without momentum.
    Unlike there, a round without momentum is not undone, and `decrease` is 1: at 0.999 the method stalls where a
    linearised step gains less than a thousandth.

    All of it is computed from noisy gradients. Noise alone makes c_t go up in every second round or so, and then the
    restart takes the momentum away for good: by default it is on without noise and off with it. Momentum adds the noise
    up, too: with much noise `DPADMM` is better.
    """

    restart: bool | None = None  # by default only where there is no noise
    decrease: float = 1.0

    traits = DPADMM.traits
    kinds = DPADMM.kinds

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.decrease <= 1:
            raise InputError(f"decrease must lie above 0 and at most at 1, not at {self.decrease}")

    def _ahead(self, s: State, new: State, step: np.ndarray) -> State:
        """Steps 5-7 of Algorithm 3, or a restart."""
        theta = (1 + np.sqrt(1 + 4 * s.theta**2)) / 2
        momentum = (s.theta - 1) / theta
        change = self.penalty * _square(new.u - s.u_hat) + _square(new.x - s.x_hat) / step
        restart = self.budget is None if self.restart is None else self.restart
        again = (change >= self.decrease * s.change) & (s.momentum > 0) & restart
        return new._replace(
            x_hat=np.where(again, s.x, new.x + momentum * (new.x - s.x)),
            u_hat=np.where(again, s.u, new.u + momentum * (new.u - s.u)),
            theta=np.where(again, 1.0, theta),
            momentum=np.where(again, 0.0, momentum),
            change=np.where(again, s.change / self.decrease, change),
        )


def _square(x: np.ndarray) -> np.ndarray:
    return (x**2).sum(axis=1, keepdims=True)
