"""The losses: see `tacit.core.losses`."""

from tacit.core.losses import HuberHinge, Logistic, Loss, Multinomial, PseudoHuber, Squared

__all__ = ["HuberHinge", "Logistic", "Loss", "Multinomial", "PseudoHuber", "Squared"]
