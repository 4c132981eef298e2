"""The discriminative experiment: predict from its wounds whether an agent in NetHack dies."""
