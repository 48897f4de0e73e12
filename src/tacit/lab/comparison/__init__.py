"""Methods side by side, on public or made-up records.

trials      divisions of the records, and all private methods on them at one total budget
contenders  methods of your own, and runs from a file
gaps        the same on a `Problem`, where the gap to the minimum is the error
methods     `tacit.compare`, the front of the three above
table       what a comparison has found: `Comparison`
paired      the difference of two methods, seed by seed
sweep       some methods at several budgets, as a table
"""
