"""Inference over time: one filter; each part of the state is sampled or marginalised."""
