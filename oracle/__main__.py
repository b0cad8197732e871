"""`python -m oracle` is `qos-oracle`."""

from oracle.cli.main import main

main()
