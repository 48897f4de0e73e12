"""The mathematics: problems, losses, graphs, schedules, and the shape of a method. No privacy, no files.

problem     what each agent minimises, and its exact minimiser
losses      of a prediction against a target, with the bounds that proofs need
graph       which agents are neighbours; hamiltonian finds cycles through all agents
schedule    which agents speak at which tick
release     what leaves an agent, and what arrives
algorithm   what every method has in common
rounding    how far a computed minimiser can be from the true one
solvers     compiled minimisers of the local objectives; jit compiles them
"""
