"""The report of a training run: of `tacit train`, or of one member's agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tacit.html import line
from tacit.html.pictures import MOST_MEMBERS, graph
from tacit.html.words import counted, listed
from tacit.report.document import cost
from tacit.report.document.rendering import document

_LISTED = 100  # members, and columns, in a table
# Of a run that does not say otherwise.
_NOT_SAID: dict[str, Any] = dict.fromkeys(("member", "run", "attack", "ledger", "positive_share"))
_NOT_SAID |= dict.fromkeys(("epsilon", "delta", "colluders", "dropouts", "converged", "consensus_error"))
_NOT_SAID |= {"exchange": "rows", "without": [], "history": {}, "measured": [], "listening": {}, "warnings": []}


def run(plain: dict[str, Any]) -> str:
    """The document.

    title, tacit, written       what, by which version, when
    member, run                 whose agent's report it is, and the name of the run; None for a simulation
    agents, edges, without      [{"name", "rows"}], pairs of their places, names of members that dropped out
    method                      {"name", "title"}
    settings                    {name: value}, as in the model file
    records                     which records and columns, see `tacit.report.document.trained.records_used`
    rounds, messages, bytes     what left; `messages` of an agent are its releases
    private, statement          the guarantee, as in the model file
    epsilon, delta, colluders, dropouts, coalitions    of a private run, as in the model file
    positive_share              whether a noisy count measured the share of positives
    converged, consensus_error, history, measured      of an exact run alone: they are not covered by a guarantee
    listening, robust, attack   whose messages were moved; how members listened; who lied in a simulation
    ledger                      {"spent", "cap", "left"}, if one has paid
    warnings                    what the command warned of, if it does not depend on records
    verify                      [{"command", "what"}]
    """
    said, agents = _NOT_SAID | plain, plain["agents"]
    why = plain["statement"].removeprefix("not private: ")
    names = [each["name"] for each in agents]
    said |= {
        "why": f"{why[:1].upper()}{why[1:]}.",
        "in_words": None if said["epsilon"] is None else cost.plain_words(plain),
        "warned": list(_warned(said)),
        "talks": Counter(end for edge in plain["edges"] for end in edge),
        "picture": graph(names, plain["edges"], own=said["member"]) if 2 <= len(names) <= MOST_MEMBERS else None,
        "most": _LISTED,
        "all_settings": [(name, _setting(value)) for name, value in plain["settings"].items()],
        "shares_noise": cost.shares_noise(plain),
        "sizes": cost.sizes(plain),
        "curves": [(title, line(title, values)) for title, values in said["history"].items()],
    }
    return document("run.html", plain["title"], "Report of a training run", plain, said)


def _warned(said: dict[str, Any]) -> Iterator[str]:
    if not said["private"] and said["epsilon"] is not None:
        yield "The noise was seeded. Whoever knows the seed can take it away. Use this run for tests only."
    elif not said["private"]:
        yield "Exact values left the members. Only agree to this if all members may see each other's records."
    if said["attack"]:
        yield f"{said['attack']}. The model is that of the honest members."
    if absent := said["without"]:
        yield f"{listed(absent)} dropped out. The others went on without {'it' if len(absent) == 1 else 'them'}."
    moved = said["listening"].get("moved", {})
    for name, found in moved.items():
        yield (
            f"What {name} said was moved at {counted(found['ticks'], 'tick')}, by {found['mean']:.3g} on average and "
            f"{found['largest']:.3g} at most."
        )
    if moved and said["listening"].get("robust") == "clipping":
        yield "With clipping, about half of the honest neighbours are moved a little. Look for one that stands out."
    yield from said["warnings"]


def _setting(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)
