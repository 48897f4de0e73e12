"""What releases cost, and how it is counted.

events        what one release costs, as frozen data, in every form that accountants add up
formulas      the mathematics of these forms
accounting    what many events cost together, in epsilon
filters       the same where later events may depend on earlier releases
noise         sources of noise: `SecureNoise` for anything real, seeded and recorded ones for experiments
fast_noise    its arithmetic for blocks of rows, in the numbers of head_tail
exact_noise   its arithmetic for one row, in intervals, with the precision of precision
laws          how the noise is distributed, and what it costs
sensitivity   by how much one record moves what an agent computes
mechanisms    add the noise and make the release
ledger        a file that keeps count for one data set, under a cap
plan          what a run will cost, before any data is read
coalitions    what a run costs against members that put together what they know
network       what one agent learns of another from a token that it sees at its own visits only
transcript    what one run has released, for readers who have the data anyway
meaning       what epsilon and delta mean, in plain words

How large an epsilon may be is in `tacit.run.budget`; audits are in `tacit.lab.audit`.
"""
