"""The generative experiment: picture sequences of NetHack that obey the rules."""
