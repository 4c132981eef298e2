"""Relational neurosymbolic Markov models: rules and networks over time."""
