"""The federation file: what the members have agreed on, as TOML. Every member holds the same file.

    version = 1
    tacit = "0.2.0"              # all members run this version: it computes the settings of a private run
    title = "ward study, spring" # the same federation runs again under another title
    rounds = 64
    dimension = 12               # of the model; it follows from the schema
    edges = [["alder", "birch"], ["birch", "cedar"]]
    exchange = "rows"            # or "secret-shared sums": nobody sees a single row (docs/secret-sharing.md);
                                 # or "secret-shared totals": members share their noise (shared-descent)
    radius = 256                 # models farther from zero are clipped; public, from the recipe; up to 2^40
    robust = "none"              # or "clipping", "trimmed", "median": how members listen, against one that lies
    go_on_after = 0              # seconds without a member after which the others go on without it; 0: they wait
    quorum = 0                   # how many of a member's neighbours must sign that it is away; 0: more than half
    predecessor = "6c4e36f9..."  # the name of the run of the version before this one, if there is one

    colluders = 1                # with totals only: the guarantee holds against any so many members together,
    dropouts = 0                 # while so many may be away

    [method]                     # private, by a recipe: every setting follows from the budget and the numbers of rows
    name = "mr-admm"
    epsilon = 1
    delta = 1e-6
    deviation = 0.00231          # what whoever wrote the file has calibrated for this budget: the noise of the mean
    multiplier = 24.7            # gradient, and of a step; every member checks that it keeps the budget

    [method]                     # or exact values are exchanged: "admm", or "i-admm", on a token
    name = "admm"
    penalty = 0.001
    l2 = 0.00003
    loss = "logistic"

    [[members]]
    name = "alder"
    address = "alder.example:7443"
    rows = 4000                  # public, as everywhere in tacit
    certificate = '''
    -----BEGIN CERTIFICATE-----
    ...
    '''

    [schema]                     # as in a schema file, with [schema.label] and [[schema.columns]]

    [[renewals]]                 # new certificates of members, if there are any (`tacit.agent.renewal`)

Two files agree if their content is the same, however it is written. Renewals are no part of the agreement: each member
adds those that it has got. Every part has a hash of its canonical content, and
the hash of all parts names the run. When two agents meet they show each other the hashes of the parts, so that each can
say which part differs.

`quorum` matters only with `go_on_after`. The others go on without a member if that many of its neighbours have signed
that they have had no sign of life from it (`tacit.agent.absence`). A member that has fewer neighbours needs all of
them. With 0, more than half of the neighbours must sign: 1 of 1, 2 of 2, 2 of 3, 3 of 4.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from tacit import __version__
from tacit.data import schema_toml
from tacit.errors import InputError
from tacit.exchange.listening import ROBUST

VERSION = 1
LARGEST = 2**53  # double precision holds every whole number up to here
_SETTINGS = ("version", "tacit", "title", "rounds", "dimension", "edges", "exchange", "radius", "robust")
_KEYS = (*_SETTINGS, "go_on_after", "quorum", "method", "members", "schema")
RESERVE = ("colluders", "dropouts")  # a file without totals need not have these
_OPTIONAL = (*RESERVE, "predecessor", "renewals")


def write(settings: Mapping[str, Any], method: Mapping[str, Any], members: Sequence[Any], schema: Any) -> str:
    """The text of the file."""
    head = {"version": VERSION, "tacit": __version__, **settings}
    blocks = [schema_toml.lines(head), schema_toml.lines(method, "method")]
    for member in members:
        plain = {key: value for key, value in member.items() if key != "certificate"}
        blocks.append(schema_toml.lines(plain, "[members]") + f"certificate = '''\n{member['certificate']}'''\n")
    return "\n".join([*blocks, schema_toml.write(schema, under="schema")])


_LONGEST = 20_000  # characters of a line: a key with more dots than that takes minutes to read


def loads(text: str, source: str) -> dict[str, Any]:
    """The tables of a TOML text, unchecked; `source` is what an error calls it."""
    if any(len(line) > _LONGEST for line in text.splitlines()):
        raise InputError(f"{source} is not TOML of ours: it has a line of more than {_LONGEST:,} characters")
    try:
        return tomllib.loads(text)
    except ValueError as error:  # no TOML, or a number of thousands of digits
        raise InputError(f"{source} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{source} is not TOML of ours: it is nested too deeply") from None


def check(plain: dict[str, Any], *, reserve: bool) -> None:
    """Refuses a file that lacks a key, has an unknown one, or has a value of the wrong type. `reserve` says whether it
    must have the keys of `RESERVE`."""
    _check_sizes(plain)
    _check_keys(plain, (*_KEYS, *RESERVE) if reserve else _KEYS, "a federation", optional=_OPTIONAL)
    if plain["version"] != VERSION:
        raise InputError(f"version must be {VERSION}, not {plain['version']!r}: write it anew (tacit federation new)")
    if plain["tacit"] != __version__:
        raise InputError(f"it was agreed upon for tacit {plain['tacit']}; this is {__version__}: all must run the same")
    edges, members = plain["edges"], plain["members"]
    if not (isinstance(edges, list) and all(isinstance(e, list) and list(map(type, e)) == [str] * 2 for e in edges)):
        raise InputError(f'edges are pairs of names, [["alder", "birch"], ...]; got {edges!r}')
    if not (isinstance(members, list) and all(isinstance(member, dict) for member in members)):
        raise InputError("members are tables; write [[members]]")
    renewals = plain.get("renewals", [])
    if not (isinstance(renewals, list) and all(isinstance(each, dict) for each in renewals)):
        raise InputError("renewals are tables; write [[renewals]]")
    if type(plain["go_on_after"]) not in (int, float):
        raise InputError(f"go_on_after is a number of seconds, not {plain['go_on_after']!r}")
    if type(plain["radius"]) not in (int, float) or not plain["radius"] > 0:
        raise InputError(f"radius is a positive number, the largest norm of a model, not {plain['radius']!r}")
    if not isinstance(plain["robust"], str):
        raise InputError(f"robust is 'none' or one of {', '.join(ROBUST)}, not {plain['robust']!r}")
    if not isinstance(plain["method"], dict):
        raise InputError("method is a table; write [method]")


def made(kind: Any, settings: dict[str, Any], what: str) -> Any:
    """An object of a dataclass, from a table whose keys and types are checked."""
    wanted = {f.name: f.type for f in fields(kind)}
    _check_keys(settings, tuple(wanted), what)
    for key, value in settings.items():
        right = {"str": str, "int": int, "float": (int, float)}[str(wanted[key])]
        if not isinstance(value, right) or isinstance(value, bool):  # type: ignore[arg-type]
            raise InputError(f"{key} of {what} has the wrong type: {value!r}")
    return kind(**settings)


def _check_sizes(plain: Any, name: str = "a number") -> None:
    """Refuses whole numbers that double precision cannot hold: TOML allows them at any length."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            _check_sizes(value, key)
    elif isinstance(plain, list):
        for value in plain:
            _check_sizes(value, name)
    elif isinstance(plain, int) and abs(plain) > LARGEST:
        raise InputError(f"{name} is too large: whole numbers go up to 2^53")


def _check_keys(settings: Mapping[str, Any], known: tuple[str, ...], what: str, optional: tuple[str, ...] = ()) -> None:
    allowed = dict.fromkeys((*known, *optional))
    for key in settings:
        if key not in allowed:
            raise InputError(f"{what} sets {', '.join(allowed)}; got {key!r}; correct or remove it")
    for key in known:
        if key not in settings:
            raise InputError(f"{what} must set {key}; it is absent; add it")
