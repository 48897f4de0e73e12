"""A file that counts what the records of some people have spent, under a cap: see `tacit.privacy.ledger.ledger`."""

from tacit.privacy.ledger.account import Cost
from tacit.privacy.ledger.entries import About, AnotherVersion, BudgetExceeded, Cap, Entry, Head, LedgerError, Records
from tacit.privacy.ledger.history import History, RunSummary, Verified
from tacit.privacy.ledger.ledger import Ledger

__all__ = [
    "About",
    "AnotherVersion",
    "BudgetExceeded",
    "Cap",
    "Cost",
    "Entry",
    "Head",
    "History",
    "Ledger",
    "LedgerError",
    "Records",
    "RunSummary",
    "Verified",
]
