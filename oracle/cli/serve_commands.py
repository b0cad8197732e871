"""`serve`: the read API alone, beside a daemon or on a copy of its database."""

import os

import structlog
import typer

from oracle import __version__
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, load_config
from oracle.daemon.compose import open_reader
from oracle.daemon.records import open_folded_records
from oracle.daemon.startup import freeze_garbage, read_api_of
from oracle.daemon.stopping import StopSignal, until_told
from oracle.daemon.web.http_server import serving
from oracle.daemon.web.listener import raise_descriptor_limit

# Of 19 steps down: beside the daemon it gets about a tenth of a processor that both want.
NICENESS = 10


def register(app: typer.Typer) -> None:
    """Put `serve` on the command line."""
    app.command("serve", epilog="Example: qos-oracle serve --config config/local.toml")(serve)


def serve(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Answer the read API under [api] host and port; until SIGTERM.

    It opens no key, takes no lease, asks no endpoint and only reads the database, which may be a
    PostgreSQL replica of the daemon's: every answer says how far that is behind. As many as you
    like may run. Where processors are short, the daemon goes first.
    """

    def work(stop: StopSignal) -> None:
        with open_folded_records(load_config(config)) as records:
            web = read_api_of(records, open_reader(records.config), lambda: None)
            freeze_garbage()
            with serving(web, records.config.api.listener) as address:
                structlog.get_logger().info("read_api_started", version=__version__, api=address)
                stop.event.wait()
            structlog.get_logger().info("process_stopped", by=stop.reason)

    raise_descriptor_limit()
    # Half of a small machine for viewers would be a third of the daemon's speed (decision 0217).
    os.nice(NICENESS)
    until_told(work)
