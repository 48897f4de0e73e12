"""All agents of a graph in one process."""
