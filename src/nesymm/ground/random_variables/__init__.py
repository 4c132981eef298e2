"""Random variables: their identity, parameters and outcomes.

A variable is identified by its clause and its keys; values never enter. Keys that are constants
are part of its name, keys that run along axes make it an array.
"""
