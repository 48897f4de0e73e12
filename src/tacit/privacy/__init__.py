"""What releases cost, and how it is counted.

events        what one release costs, as frozen data, in every form that accountants add up
formulas      the mathematics of these forms
accounting    what many events cost together, in epsilon
filters       the same where later events may depend on earlier releases
noise         sources of noise: seeded, recorded, secure
fast_noise    secure noise for blocks of rows, in the arithmetic of head_tail
exact_noise   secure noise for one row, in interval arithmetic
laws          how the noise is distributed, and what it costs
sensitivity   by how much one record moves what an agent computes
mechanisms    add the noise and make the release
ledger        a file that keeps count for one data set, under a cap
plan          what a run will cost, before any data is read
network       what one agent learns of another from a token that it sees at its own visits only
transcript    what one run has released, for readers who have the data anyway
audit         does a step keep what it claims?
"""
