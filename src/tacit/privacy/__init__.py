"""What releases cost, and who keeps count.

events        what one release costs, as frozen data
accounting    what many cost together, in epsilon
ledger        a file that keeps count for one data set, under a cap
network       what one agent learns of another from a token that it sees at its own visits only
transcript    what one run has told, for the eyes of who has the data
audit         does a step keep what it claims?
"""
