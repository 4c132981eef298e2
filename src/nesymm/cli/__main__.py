"""`python -m nesymm.cli`."""

from nesymm.cli.main import main

main()
