"""Learning compiles much and computes little: the tests here share what is compiled."""

from compilation import shared_compilation  # noqa: F401
