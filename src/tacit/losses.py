"""The losses: see `tacit.core.losses`."""

from tacit.core.losses import HuberHinge, Logistic, Loss, Squared

__all__ = ["HuberHinge", "Logistic", "Loss", "Squared"]
