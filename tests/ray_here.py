"""Shards without a cluster: stands in for the module `ray`, with all actors in this process."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from tacit.engines import Ray


class Here(Ray):
    """An engine whose actors are in this process; whatever they get or give is pickled, as between processes."""

    @contextmanager
    def connected(self):
        yield _Module()


class _Module:
    def __init__(self):
        from ray import cloudpickle, exceptions

        self.exceptions, self._pickle = exceptions, cloudpickle

    def cluster_resources(self):
        return {"CPU": 8}

    def remote(self, num_cpus):
        return lambda cls: SimpleNamespace(remote=lambda: _Actor(self, cls()))

    def copied(self, value):
        return self._pickle.loads(self._pickle.dumps(value))

    def wait(self, refs, timeout):
        return refs, []

    def get(self, refs):
        for each in refs if isinstance(refs, list) else [refs]:
            if isinstance(each, BaseException):
                raise each
        return refs

    def kill(self, actor):
        pass


class _Actor:
    def __init__(self, module, own):
        self._module, self._own = module, own

    def die(self):
        """What it was asked before, it has answered; from now on it is lost."""
        self._own = None

    def __getattr__(self, name):
        def call(*arguments):
            if self._own is None or any(isinstance(each, BaseException) for each in arguments):
                return self._module.exceptions.ActorDiedError()
            return self._module.copied(getattr(self._own, name)(*self._module.copied(arguments)))

        def several(num_returns):
            def each(*arguments):
                found = call(*arguments)
                return [found] * num_returns if num_returns > 1 and isinstance(found, BaseException) else found

            return SimpleNamespace(remote=each)

        return SimpleNamespace(remote=call, options=several)


def assert_same(one, other):
    """Two runs are equal to the last bit."""
    for a, b in zip(one.state, other.state, strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("estimate", "trajectory", "heard"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)
    assert one.history.keys() == other.history.keys()
    for name, found in one.history.items():
        np.testing.assert_array_equal(found, other.history[name])
    assert list(one.spent) == list(other.spent)
    assert (one.rounds, one.converged, one.seeded) == (other.rounds, other.converged, other.seeded)
    assert one.identity == other.identity
