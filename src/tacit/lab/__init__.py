"""The laboratory: everything about the methods that a run needs not. It imports the product, never the other way.

theory      what the papers prove, as calculators: `tacit plan --theory`
attacks     what messages reveal without privacy: `tacit attack`
audit       whether a private method reveals more than it claims: `tacit audit`
comparison  methods side by side, and sweeps over budgets: `tacit compare`
papers      the papers' figures and claims: `tacit reproduce`
charts, listings   their pictures, and their tables for the terminal
cli         their commands
"""
