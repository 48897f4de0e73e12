"""The commands of the laboratory, and the demo, which ends with a comparison."""
