"""`python -m oracle` is `qos-oracle`."""

from oracle.entrypoints.cli import main

main()
