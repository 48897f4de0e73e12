"""How long questions and answers can be. Whatever is longer is not read."""

from __future__ import annotations

from tacit.agent.federation import Federation
from tacit.agent.incarnation import STANDING_SIZE
from tacit.agent.ledger_heads import HEAD_SIZE
from tacit.agent.membership.absence import most_absences
from tacit.agent.signed_words import MOST, SAID_SIZE
from tacit.agent.transport.wire import ENVELOPE
from tacit.core.algorithm import traits

_KEY_SIZE = 160  # bytes: more than a signed key, a sealed share or a statement can take


def largest_question(federation: Federation) -> int:
    """The most bytes that a greeting, or a question with shares, can have."""
    members = federation.agreed.members if federation.agreed is not None else federation.members
    greeting = sum(64 + len(part) for part in federation.parts) + sum(8 + len(member.name) for member in members)
    absences = most_absences(federation) * (_KEY_SIZE + 5 * len(members))  # a member's number has at most five bytes
    # the digest of renewals; keys, and signatures of the meeting; the heads of ledgers; what is added to a message
    return 512 + 32 + greeting + 2 * _KEY_SIZE * len(members) + absences + 2 * HEAD_SIZE + _added(federation)


def largest_answer(federation: Federation) -> int:
    """The most bytes that an answer can have, from the model's dimension and the number of members."""
    rows = len(traits(federation.setting.algorithm).carried) or 1  # of a state: `tacit.agent.membership.dropout`
    message = 8 * rows * federation.schema.model_dimension + ENVELOPE + _added(federation)
    return max(message, largest_question(federation))


def _added(federation: Federation) -> int:
    """The most bytes that are added to what is committed: a standing, a digest of totals, statements, and two for each
    contradiction."""
    return STANDING_SIZE + 64 + SAID_SIZE * (MOST + 2 + 2 * len(federation.members))
