"""What the papers' theorems say about a plan: convergence conditions, sample sizes, how much privacy to buy.

These are diagnostics: nothing in tacit depends on them, and each says which of its constants are unknown.
"""
