"""Defines the command `gateway`, which runs a gateway's selection service."""

from pathlib import Path
from typing import Annotated

import typer

from gateway.gateway_config import read_gateway_config, read_token
from gateway.gateway_process import serve_gateway
from oracle import __version__
from oracle.daemon.stopping import StopSignal, run_until_signalled
from oracle.daemon.web.listener import raise_descriptor_limit
from oracle.telemetry import logging_setup
from oracle.telemetry.logger import get_logger

_ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        envvar="QOS_GATEWAY_CONFIG",
        help="Configuration file of the selection service (TOML).",
        metavar="FILE",
    ),
]
_DEFAULT_CONFIG = Path("config/gateway.toml")


def register(app: typer.Typer) -> None:
    app.command("gateway", epilog="Example: qos-oracle gateway --config config/gateway.toml")(
        run_gateway
    )


def run_gateway(config: _ConfigOption = _DEFAULT_CONFIG) -> None:
    """Run an HTTP service that selects nodes for a gateway.

    The gateway reports the outcome of each relay. Nodes get tickets by latency and success rate,
    as in Pocket's article, and can be checked over JSON-RPC. The service has no keys, sends
    nothing to a chain, and runs until SIGTERM.
    """

    def serve_until_stopped(stop: StopSignal) -> None:
        gateway_config = read_gateway_config(config)
        logging_setup.configure_logging(gateway_config.log.format, gateway_config.log.level)
        token = read_token(gateway_config.gateway)
        with serve_gateway(gateway_config, token, stop) as address:
            logger = get_logger()
            logger.info("gateway_started", version=__version__, address=address)
            stop.event.wait()
        get_logger().info("process_stopped", by=stop.reason)

    raise_descriptor_limit()
    run_until_signalled(serve_until_stopped)
