"""The mathematics of what events cost. `tacit.privacy.events` says which of it each event has.

closed_forms  Renyi divergences, and the least epsilon of events of one kind
sampling      the privacy loss of a Gaussian mechanism on a secret sample
blurred       a Laplace mechanism whose value is blurred by a secret uniform number
"""
