"""Plots and tables."""
