"""What is refused is logged once for every kind of refusal, so that nobody can fill the disk or the memory."""

from __future__ import annotations

import re
from collections import Counter

from tacit.agent.monitoring.logs import log
from tacit.agent.monitoring.progress import Traffic
from tacit.agent.transport.wire import BadMessage
from tacit.errors import TacitError

LONGEST = 400  # characters of a refusal
_MOST_CALLERS = 1000  # kinds of lines about callers: a caller may have any number of addresses


class Refusals:
    """Logs every kind of refusal once, so that nobody can fill the disk by calling again and again.

    `kind` is the text without anything that the caller chose: another text of the same kind is not logged. A text may
    contain what the caller sent, so it is cut, and characters that control a terminal are replaced.
    """

    def __init__(self, traffic: Traffic | None = None) -> None:
        self._logged: set[str] = set()
        self._traffic = traffic or Traffic()

    def warn(self, text: str, kind: str = "") -> None:
        """Counts the refusal; logs the text, unless its kind is logged already."""
        kind = kind or text
        self._traffic.refuse(kind)
        if kind not in self._logged:
            self._logged.add(kind)
            log.warning("".join(sign if sign.isprintable() else "?" for sign in text[:LONGEST]))


class Callers:
    """Logs callers that fail in the handshake: each line nine times, then the tenth time, the hundredth, ... A caller
    that comes again and again, from any number of addresses, must not fill the disk or the memory."""

    def __init__(self, traffic: Traffic) -> None:
        self._seen, self._traffic = Counter[str](), traffic

    def failed(self, address: str, why: str) -> None:
        """Counts a caller; logs it, if that is due."""
        self._traffic.refuse(f"a caller {why}")
        text = f"a caller at {address} {why}: refused"
        if text not in self._seen and len(self._seen) >= _MOST_CALLERS:
            text = f"a caller at one more address {why}: refused"
        self._seen[text] += 1
        if self._seen[text] < 10:
            log.warning(text)
        elif str(self._seen[text]).strip("0") == "1":
            log.warning(f"{text} ({self._seen[text]} times)")


def kind_of(error: TacitError) -> str:
    """An error without what the peer chose: the rule, or the text without its numbers."""
    return error.rule if isinstance(error, BadMessage) else re.sub(r"\d+", "#", str(error))
