"""A run as one thing: everything public about it is data, which is planned, paid for, run and recorded.

limits     what every front refuses or warns of
trust      on whom the members count
request    what somebody asks for; it is resolved into a setting, by the same rules at every front
own        parameters of one's own, in place of a recipe's
recipes    all numbers of a private method, from public facts alone
exact      the methods that exchange exact values, and their usual settings
parts      methods, and what they are made of, as data
terms      composite terms as data
spec       a run as data, which a file can hold
setting    a spec and the public facts of its problem: planned, paid for and simulated here
training   fit one model, and compare it with the models that the organisations would fit alone
model      the model file
"""
