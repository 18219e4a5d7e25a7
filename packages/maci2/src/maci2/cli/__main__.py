"""`python -m maci2.cli`."""

from maci2.cli.app import main

main()
