"""The state between steps: which slots there are, what they hold, how they are read.

A predicate that some clause reads at an earlier time is a *fluent*. Per key it has a presence bit
and its values; keys that run along axes make it an array, and keys that are values themselves are
written into the array (scatter) and read from it (gather).

What keys and types a fluent has is found by repeating the grounding until nothing new appears;
`Blocks` is what one round knows.
"""
