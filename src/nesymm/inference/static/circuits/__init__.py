"""The parts that a circuit is compiled and evaluated with."""
