"""A file that counts what one data set has spent, under a cap: see `tacit.privacy.ledger.ledger`."""

from tacit.privacy.ledger.entries import Entry
from tacit.privacy.ledger.ledger import BudgetExceeded, Cap, Cost, Ledger, LedgerError, RunSummary, Verified

__all__ = ["BudgetExceeded", "Cap", "Cost", "Entry", "Ledger", "LedgerError", "RunSummary", "Verified"]
