"""The federation file: what the members have agreed on, as TOML. Every member holds the same file.

    version = 2
    tacit = "0.4.0"              # all members run this version
    title = "ward study, spring" # the same federation runs again under another title
    dimension = 12               # of the model; it follows from the schema
    edges = [["alder", "birch"], ["birch", "cedar"]]
    exchange = "rows"            # or "secret-shared sums": nobody sees a single row (docs/secret-sharing.md);
                                 # or "secret-shared totals": members share their noise (shared-descent)
    go_on_after = 0              # seconds without a member after which the others go on without it; 0: they wait
    quorum = 0                   # how many of a member's neighbours must sign that it is away; 0: more than half
    predecessor = "6c4e36f9..."  # the name of the run of the version before this one, if there is one

    [run]                        # the run as data (`tacit.run.spec`), without its graph, which follows from the edges
    rounds = 65                  # ticks
    l2 = 1e-05
    radius = 256.0               # models farther from zero are clipped; up to 2^40
    method = { kind = "averaged", method = { kind = "dvp", penalty = 0.02, budget = { ... } }, ... }
    loss = { kind = "huber", width = 1.0 }
    recipe = "dvp"               # which recipe chose the numbers, if one did; it chooses new ones for other members
    budget = { epsilon = 1.0, delta = 1e-06 }  # every member checks that the noise keeps it; without it nothing is
                                 # claimed
    trust = { robust = "clipping" }            # how members listen, against one that lies; or with totals
                                 # { colluders = 1, dropouts = 0 }: the guarantee holds against any so many members
                                 # together, while so many may be away

    [[members]]
    name = "alder"
    address = "alder.example:7443"
    rows = 4000                  # public, as everywhere in tacit
    certificate = '''
    -----BEGIN CERTIFICATE-----
    ...
    '''

    [schema]                     # as in a schema file, with [schema.label] and [[schema.columns]]

    [[renewals]]                 # new certificates of members, if there are any (`tacit.agent.membership.renewal`)

Lists of one value for each agent are about the members in the order of their names.

Two files agree if their content is the same, however it is written. Renewals are no part of the agreement: each member
adds those that it has got. Every part has a hash of its canonical content, and
the hash of all parts names the run. When two agents meet they show each other the hashes of the parts, so that each can
say which part differs.

`quorum` matters only with `go_on_after`. The others go on without a member if that many of its neighbours have signed
that they have had no sign of life from it (`tacit.agent.membership.absence`). A member that has fewer neighbours needs
all of them. With 0, more than half of the neighbours must sign: 1 of 1, 2 of 2, 2 of 3, 3 of 4.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from tacit import __version__
from tacit.data import schema_toml
from tacit.errors import InputError
from tacit.run.spec import in_toml

VERSION = 2
LARGEST = 2**53  # double precision holds every whole number up to here
_KEYS = ("version", "tacit", "title", "dimension", "edges", "exchange", "go_on_after", "quorum", "run", "members")
_OPTIONAL = ("predecessor", "renewals")


def write(settings: Mapping[str, Any], run: Mapping[str, Any], members: Sequence[Any], schema: Any) -> str:
    """The text of the file."""
    head = {"version": VERSION, "tacit": __version__, **settings}
    blocks = [schema_toml.lines(head), "[run]\n" + "".join(f"{key} = {in_toml(each)}\n" for key, each in run.items())]
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


def check(plain: dict[str, Any]) -> None:
    """Refuses a file that lacks a key, has an unknown one, or has a value of the wrong type."""
    _check_sizes(plain)
    if "label" in plain and "members" not in plain:
        raise InputError("it is a schema, not a federation file, which tacit federation new writes")
    if plain.get("version", VERSION) != VERSION:
        raise InputError(f"version must be {VERSION}, not {plain['version']!r}: write it anew (tacit federation new)")
    _check_keys(plain, (*_KEYS, "schema"), "a federation", optional=_OPTIONAL)
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
    if not isinstance(plain["run"], dict):
        raise InputError("run is a table; write [run]")
    if "graph" in plain["run"]:
        raise InputError("[run] has no graph here: it follows from the edges between the members; leave it out")


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
