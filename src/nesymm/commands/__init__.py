"""What the commands of `nesymm` do, one file per command; `cli.py` says how they are called."""
