"""The problem, who talks to whom and when, and the loop that runs a method: no privacy, no files."""
