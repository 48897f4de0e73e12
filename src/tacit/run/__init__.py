"""A run as one thing: everything public about it is data, which is planned, paid for, run and recorded."""
