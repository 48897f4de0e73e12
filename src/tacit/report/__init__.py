"""Plots and tables for people."""
