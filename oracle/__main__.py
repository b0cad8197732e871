"""Entry point of `python -m oracle`, which is equivalent to `qos-oracle`."""

from oracle.cli.main import main

main()
