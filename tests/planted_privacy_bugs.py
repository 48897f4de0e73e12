"""Bugs that would break a privacy claim, one changed line each, and the audit that must catch each of them.

A bug is planted in a copy of the sources; the audit runs there, in a process of its own, exactly as a user would run
it. `tests/audit_runs.py` (`make audit`) plants all of them, `tests/privacy/test_planted_bugs.py` the quickest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

SOURCES = Path(__file__).resolve().parent.parent / "src"


class Bug(NamedTuple):
    name: str
    file: str  # below src/tacit
    old: str  # a part of exactly one line
    new: str  # what stands there instead
    audit: str  # the arguments of `tacit audit`


_ONE, _TWO, _RUN = "--epsilon 4 --rounds 1", "--epsilon 4 --rounds 2", "--epsilon 4 --rounds 3"
_HALF = "half the noise"
_ADDED = 'exact = noise.add("gaussian", problem.data_gradient(at), deviation, ids, t, onto=problem.l2 * at)'
_KEPT = 'vars(noise).setdefault("kept", noise.draw("gaussian", deviation, f.shape[1], ids, t))'
REUSED_SHARE = ("privacy/mechanisms.py", _ADDED, f"exact = problem.data_gradient(at) + problem.l2 * at + {_KEPT}")
REUSED_SAMPLE = (
    "privacy/mechanisms.py",
    "chosen = noise.choose(rate, int(problem.sizes.max()), ids, t)",
    'chosen = vars(noise).setdefault("chosen", noise.choose(rate, int(problem.sizes.max()), ids, t))',
)
# The same where only `SecureNoise` is spoilt: tests with other noise see nothing.
REUSED_SECURE_SHARE = (
    *REUSED_SHARE[:2],
    f"{_ADDED} if not noise.private else {REUSED_SHARE[2].removeprefix('exact = ')}",
)
BUGS = [
    Bug(
        f"{_HALF} in an objective",
        "privacy/mechanisms.py",
        "centre, most), factor, scale, ids, t, grid)",
        "centre, most), factor / 2, scale, ids, t, grid)",
        f"mr-admm {_ONE}",
    ),
    Bug(
        f"{_HALF} on a minimiser",
        "privacy/mechanisms.py",
        "return _release(noise.add(name, value, scale, ids, t, onto=onto), events_of",
        "return _release(noise.add(name, value, scale / 2, ids, t, onto=onto), events_of",
        f"pvp {_ONE}",
    ),
    Bug(
        f"{_HALF} on a gradient",
        "privacy/mechanisms.py",
        'return _release(noise.add("gaussian", value, deviation, ids, t, onto=public), Alike',
        'return _release(noise.add("gaussian", value, deviation / 2, ids, t, onto=public), Alike',
        f"gradient-descent {_ONE}",
    ),
    Bug(
        f"{_HALF} in a share",
        "privacy/mechanisms.py",
        'exact = noise.add("gaussian", problem.data_gradient(at), deviation, ids',
        'exact = noise.add("gaussian", problem.data_gradient(at), deviation / 2, ids',
        f"shared-descent {_ONE}",
    ),
    Bug(
        "sensitivity without the factor 2",
        "privacy/sensitivity.py",
        "return 2 * problem.loss.max_slope * row_norm",
        "return problem.loss.max_slope * row_norm",
        f"mr-admm {_ONE}",
    ),
    Bug(
        "the slope of several classes without the root of 2",
        "core/multinomial.py",
        "return math.sqrt(2.0) * (1 + 2.0**-50) * max(self.weights)",
        "return max(self.weights)",
        f"pvp-classes {_ONE}",
    ),
    Bug(
        "no mask on a minimiser with normal noise",
        "privacy/mechanisms.py",
        'noise.mask("gaussian", f, mask, ids, t),',
        "f,",
        f"mr-admm {_ONE}",
    ),
    Bug(
        "no mask on a minimiser with spherical noise",
        "privacy/mechanisms.py",
        'return _release(noise.mask("spherical", f, 1 / kappa, ids, t), events)',
        "return _release(f, events)",
        "solver --epsilon 1 --samples 10000",
    ),
    Bug(
        "dual from the minimiser without noise",
        "algorithms/incremental_admm.py",
        "change, y, token = handed_on(x, centre, s.x, s.y, s.token, rho, self.penalty, view.network)",
        "y = rho * (centre - private_argmin(problem, linear=0.0, weight=rho / 2, centre=centre, start=s.x)); "
        "change, token = y - s.y, s.token + ((x - y / rho) - (s.x - s.y / rho)) / view.network",
        f"pi-admm {_RUN}",
    ),
    Bug(
        "an even step that reads data",
        "algorithms/recycled_admm.py",
        "even = s.f + moved / np.maximum(",
        "even = s.f + (moved - problem.gradient(s.f)) / np.maximum(",
        f"mr-admm {_ONE}",
    ),
    Bug(
        "noise reused between rounds",
        "privacy/mechanisms.py",
        'return _release(noise.add("gaussian", value, deviation, ids, t, onto=public), Alike',
        'return _release(public + value + vars(noise).setdefault("drawn", '
        'noise.draw("gaussian", deviation, f.shape[1], ids, t)), Alike',
        f"gradient-descent {_TWO} --steer",
    ),
    Bug("a share drawn once and reused, steered", *REUSED_SHARE, f"shared-descent {_RUN} --steer"),
    Bug("a share drawn once and reused", *REUSED_SHARE, f"shared-descent {_RUN}"),
    Bug(
        "a sample drawn once and reused",
        *REUSED_SAMPLE,
        "dp-admm --epsilon 2 --rate 0.05 --rounds 64 --samples 5000",
    ),
    Bug(
        "SecureNoise scaled by 1/sqrt(2)",
        "privacy/fast_noise.py",
        "radius = root(2 * head, 2 * tail)",
        "radius = root(head, tail)",
        f"mr-admm {_ONE}",
    ),
    Bug(
        "wrong alpha to rate, dual perturbation",
        "algorithms/dual_perturbed_admm.py",
        "return alpha_hat if as_printed else alpha_hat / 2, phi",
        "return alpha_hat, phi",
        "dvp-paper --epsilon 1",
    ),
    Bug(
        "wrong alpha to rate, primal perturbation",
        "algorithms/primal_perturbed_admm.py",
        "return convexity * alpha / (2 * problem.loss.max_slope * C_over_B)",
        "return convexity * alpha / (problem.loss.max_slope * C_over_B)",
        "pvp-paper --epsilon 1",
    ),
]


class Planted(Protocol):
    """A bug of either table: this one, or `planted_book_bugs`."""

    @property
    def name(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def old(self) -> str: ...
    @property
    def new(self) -> str: ...


def plant(bug: Planted, folder: Path) -> Path:
    """A copy of the sources in the folder, with the bug; fails if the line is not there exactly once."""
    copy = folder / "src"
    shutil.copytree(SOURCES, copy)  # with compiled kernels, which take a minute
    file = copy / "tacit" / bug.file
    text = file.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if bug.old in line]
    if len(lines) != 1:
        raise ValueError(f"{bug.name}: {bug.old!r} is on {len(lines)} lines of {bug.file}, not on one")
    file.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
    return copy


def run_audit(arguments: str, sources: Path = SOURCES, samples: int = 2000) -> dict:
    """What `tacit audit ARGUMENTS --json` says with these sources."""
    command = [sys.executable, "-m", "tacit", "audit", *arguments.split(), "--json"]
    if "--samples" not in arguments and "--minutes" not in arguments:
        command += ["--samples", str(samples)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    found = json.loads(done.stdout)
    assert (found["caught"] or found["short"]) == (done.returncode == 1)
    return found
