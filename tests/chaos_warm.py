"""What the server that forks the agents of `chaos_runs.py` has ready: all that `agent_warm` has, and the command.
So a life costs no import.
"""

import os
from importlib import import_module

import agent_warm  # noqa: F401 (compiled kernels, the accountant)

for name in ("agent.run", "cli.agent", "data.table", "report.pages", "report.taken_part"):
    import_module(f"tacit.{name}")
assert len(os.listdir("/proc/self/task")) == 1, "a thread does not survive a fork"
