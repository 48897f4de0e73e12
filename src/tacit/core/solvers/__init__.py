"""Exact minimisers of the local objectives, compiled."""
