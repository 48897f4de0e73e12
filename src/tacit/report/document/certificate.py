"""The report of `tacit certificate verify`: what is proved about a run, who has signed it, what has to be believed."""

from __future__ import annotations

from typing import Any

from tacit.privacy.meaning import EVERYBODY, in_words
from tacit.report.document.cost import coalition
from tacit.report.document.rendering import document


def certificate(plain: dict[str, Any]) -> str:
    """The document. `plain` is what `tacit certificate verify --json` prints.

    `colluders` in it says against how many members together epsilon holds; all others, if it is None.
    """
    title, said = plain["title"] or "Certificate", plain | {"cost": _cost(plain)}
    return document("certificate.html", title, "Check of a certificate", plain, said)


def _cost(plain: dict[str, Any]) -> str:
    """What it cost, and against whom the guarantee holds, as far as the data says."""
    if plain["epsilon"] is None:
        return "Exact values were exchanged: the run was not private."
    colluders, members = plain["colluders"], len(plain["members"])
    known = colluders is not None and colluders < members - 1
    return in_words(plain["epsilon"], plain["delta"], coalition(colluders, members) if known else EVERYBODY)
