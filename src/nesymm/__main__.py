"""`python -m nesymm`: the command line."""

from nesymm.cli.main import main

main()
