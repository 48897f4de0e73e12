"""One organisation's process: its identity, what was agreed, how it talks, and what it remembers over a crash.

Needs the optional dependencies `tacit-learn[agent]` (cryptography, protobuf).
"""
