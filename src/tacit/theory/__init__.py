"""What the papers' theorems say about a plan: convergence conditions, sample sizes, how much privacy to buy.

Diagnostics: nothing in tacit depends on them, and each says which of its constants nobody knows.
"""
