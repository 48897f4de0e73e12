"""Methods side by side, on public or made-up records.

comparison  all private methods at one total budget
comparing   `tacit.compare`, also with methods of your own
sweep       some methods at several budgets, as a table
"""
