"""A world made from a seed, in which the real code of agents runs: all members in one process, on one virtual clock.

- `loop`: the event loop. Its time jumps to the next event; every callback belongs to the process that asked for it.
- `network`: connections in memory behind `tacit.agent.transport.sockets.Network`, and a plain channel in place of TLS.
- `disk`: files as the system keeps them. A life has a folder of its own; a crash leaves an image of it.
- `lives`: a member's processes, one after the other, and the supervisor that starts them.
- `liars`: members whose words are changed on their way out.
- `invariants`: what must hold whenever a message leaves, and in the end.
- `schedule`: from a seed, who is hit by what at which point; how a schedule is shortened.
- `plants`: bugs of the protocol that must be found.

**What is not simulated**: TLS (one schedule in twenty has it), the kernel's sockets, threads (their work runs inline),
and time that computing takes.
"""
