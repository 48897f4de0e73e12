"""The model file: see `tacit.workflows.model`."""

from tacit.workflows.model import Model

__all__ = ["Model"]
