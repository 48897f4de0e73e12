"""Reports to read: one HTML file for a run, a comparison, a ledger or a certificate.

Each function takes plain data, as the commands print it with --json, and gives the text of the file. They know nothing
of records: what may stand in a report is decided by those who make the data.
"""
