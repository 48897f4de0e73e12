"""From records to a model: the steps that the command line and the agents share.

recipes     all settings of a private method, from public facts alone
training    fit one model, and compare it with the models that the organisations would fit alone
comparison  all private methods at one total budget
sweep       some methods at several budgets, as a table
model       the model file
"""
