"""The losses: see `tacit.core.losses`."""

from tacit.core.custom_loss import CustomLoss
from tacit.core.losses import HuberHinge, Logistic, Loss, Multinomial, PseudoHuber, Squared

__all__ = ["CustomLoss", "HuberHinge", "Logistic", "Loss", "Multinomial", "PseudoHuber", "Squared"]
