"""The losses: see `tacit.core.losses`."""

from tacit.core.custom_loss import CustomLoss
from tacit.core.losses import HuberHinge, Logistic, Loss, PseudoHuber, Squared
from tacit.core.multinomial import Multinomial

__all__ = ["CustomLoss", "HuberHinge", "Logistic", "Loss", "Multinomial", "PseudoHuber", "Squared"]
