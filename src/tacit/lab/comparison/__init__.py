"""Methods side by side, on public or made-up records.

methods     `tacit.compare`, the front of all others
comparison  what it has found: `Comparison`
results     what one method has achieved, and which one to recommend
on_records  methods and alternatives on records, at one total budget; its `lines`, on each of some `trials`
contenders  lines that are no recipes: methods of your own, and runs from a file
gaps        methods on a `Problem`, where the gap to the minimum is the error
paired      the difference of two methods, seed by seed
sweep       some methods at several budgets, as a table
"""
