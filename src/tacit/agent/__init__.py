"""One organisation's process: who it is, what was agreed, how it talks, and what it remembers over a crash.

Needs the optional dependencies `tacit-learn[agent]` (cryptography, grpcio, protobuf).
"""
