"""The schema of the patients that `tests/conftest.py` makes up, as a file."""

SCHEMA = """
version = 1
intercept = true
row_norm = 1.0

[label]
column = "died"
positive = ["yes"]
negative = ["no"]

[[columns]]
name = "age"
kind = "number"
bounds = [0, 100]

[[columns]]
name = "ward"
kind = "category"
categories = ["surgery", "medicine"]
"""
