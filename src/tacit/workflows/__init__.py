"""From records to a model: what the command line and the agents do with the methods.

recipes     a private method with all its settings, from public facts alone
training    fit one model, and compare it with what each could do alone
comparison  all private methods at one total budget
model       the file that training writes
"""
