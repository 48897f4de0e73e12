"""Losses that a user might write, at the top level of a module, so that they can be pickled."""

import math
from functools import cache

from tacit.core.losses import Logistic, Loss
from tacit.extend import CustomLoss

WIDTH = 0.5


def logistic_value(z, y):
    return max(-y * z, 0.0) + math.log1p(math.exp(-abs(y * z)))


def logistic_slope(z, y):
    return -y / (1.0 + math.exp(y * z))


def logistic_curvature(z, y):
    e = math.exp(-abs(y * z))
    return e / (1.0 + e) ** 2


def hinge_value(z, y):
    if y * z >= 1.0 + WIDTH:
        return 0.0
    if y * z <= 1.0 - WIDTH:
        return 1.0 - y * z
    return (1.0 + WIDTH - y * z) ** 2 / (4.0 * WIDTH)


def hinge_slope(z, y):
    if y * z >= 1.0 + WIDTH:
        return 0.0
    if y * z <= 1.0 - WIDTH:
        return -y
    return -y * (1.0 + WIDTH - y * z) / (2.0 * WIDTH)


def hinge_curvature(z, y):
    return 1.0 / (2.0 * WIDTH) if abs(1.0 - y * z) <= WIDTH else 0.0


def fair_value(z, y):
    return abs(z - y) - math.log1p(abs(z - y))


def fair_slope(z, y):
    return (z - y) / (1.0 + abs(z - y))


def fair_curvature(z, y):
    return (1.0 + abs(z - y)) ** -2


class SeparatelyBounded(Logistic):
    """The built-in loss with what is known of a custom one: that steep and curved exclude each other is not."""

    worst_record = Loss.worst_record


LOGISTIC = (logistic_value, logistic_slope, logistic_curvature)
HINGE = (hinge_value, hinge_slope, hinge_curvature)
FAIR = (fair_value, fair_slope, fair_curvature)


@cache
def logistic(roundings=8):
    """As the built-in one, with as many roundings."""
    return CustomLoss("my logistic", *LOGISTIC, max_slope=1.0, max_curvature=0.25, roundings=roundings)


@cache
def hinge():
    return CustomLoss("my hinge", *HINGE, max_slope=1.0, max_curvature=1.0, roundings=8)


@cache
def fair():
    return CustomLoss("fair", *FAIR, max_slope=1.0, max_curvature=1.0, numbers=True)
