"""What can go wrong, by name. Every message says which rule was broken, by which value, and what to do."""


class TacitError(Exception):
    """Parent of every error that tacit raises on purpose."""


class InputError(TacitError):
    """A file, an argument or a data set is not what it has to be."""


class GraphError(TacitError):
    """The agents cannot talk as asked: the graph is not connected, or not a graph."""


class NotConverged(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """A local minimiser did not reach the gradient norm it must state."""
