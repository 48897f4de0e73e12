"""Who takes part in a run, and with which key. Read it in this order:

1. `meeting`: a run begins when all members have signed that they have met;
2. `liveness`: when an agent takes a neighbour for away, and `absence`: what proves it to the others;
3. `dropout`: how a run in which members share their noise goes on without a member;
4. `renewal`: a member's new key; `revocation`: a member that is refused; `succession`: the next version of a
   federation.
"""
