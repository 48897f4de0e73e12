"""One organisation's process: its identity, what was agreed, how it talks, and what it remembers over a crash.

Needs the optional dependencies `tacit-learn[agent]` (cryptography, grpcio, protobuf).
"""

import os

# TLS 1.3 only, before gRPC is imported. Its list of suites concerns TLS 1.2 alone (those of 1.3 are fixed), so it gets
# a list of which our certificates can use none: their keys are of elliptic curves, and this suite is for RSA.
os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-RSA-AES256-GCM-SHA384"
