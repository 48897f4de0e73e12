"""A file that counts what the records of some people have spent, under a cap: see `tacit.privacy.ledger.ledger`."""

from tacit.privacy.ledger.entries import About, Entry, Records
from tacit.privacy.ledger.ledger import BudgetExceeded, Cap, Cost, Head, Ledger, LedgerError, RunSummary, Verified

__all__ = [
    "About",
    "BudgetExceeded",
    "Cap",
    "Cost",
    "Entry",
    "Head",
    "Ledger",
    "LedgerError",
    "Records",
    "RunSummary",
    "Verified",
]
