"""The command `gateway`: a gateway's selection service, with or without a daemon."""

from pathlib import Path
from typing import Annotated

import structlog
import typer

from gateway.gateway_config import load_gateway, token_of
from gateway.gateway_process import gateway_serving
from oracle import __version__
from oracle.daemon.stopping import StopSignal, until_told
from oracle.daemon.web.listener import raise_descriptor_limit
from oracle.telemetry import logging_setup

_ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        envvar="QOS_GATEWAY_CONFIG",
        help="The service's own configuration file (TOML).",
        metavar="FILE",
    ),
]
_DEFAULT = Path("config/gateway.toml")


def register(app: typer.Typer) -> None:
    """Add `gateway` to the command line."""
    app.command("gateway", epilog="Example: qos-oracle gateway --config config/gateway.toml")(
        gateway
    )


def gateway(config: _ConfigOption = _DEFAULT) -> None:
    """Choose nodes for a gateway's relays over HTTP, by what it tells of their outcomes.

    Tickets by latency and success rate, as Pocket's article has it; checks of the nodes by
    JSON-RPC. It has no keys and sends nothing to a chain; until SIGTERM.
    """

    def work(stop: StopSignal) -> None:
        told = load_gateway(config)
        logging_setup.configure(told.log.format, told.log.level)
        token = token_of(told.gateway)
        with gateway_serving(told, token, stop) as address:
            log = structlog.get_logger()
            log.info("gateway_started", version=__version__, address=address)
            stop.event.wait()
        structlog.get_logger().info("process_stopped", by=stop.reason)

    raise_descriptor_limit()
    until_told(work)
