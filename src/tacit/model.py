"""The model file: see `tacit.run.model`."""

from tacit.run.model import Model

__all__ = ["Model"]
