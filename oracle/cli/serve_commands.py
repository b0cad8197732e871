"""Implements `serve`, which runs only the read API, on the daemon's database or a replica."""

import os

import typer

from oracle import __version__
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, load_config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_folded_records
from oracle.daemon.startup import open_read_api, tune_garbage_collection
from oracle.daemon.stopping import StopSignal, run_until_signalled
from oracle.daemon.web.http_server import serve_app
from oracle.daemon.web.listener import raise_descriptor_limit
from oracle.telemetry.logger import get_logger

# The nice value (19 is the maximum). On a contended CPU, the server then gets about a tenth of the
# time, and a daemon the rest.
NICENESS = 10


def register(app: typer.Typer) -> None:
    app.command("serve", epilog="Example: qos-oracle serve --config config/local.toml")(serve)


def serve(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Serve the read API at [api] host and port until SIGTERM.

    The server opens no key, takes no lease and only reads the database, which may be a PostgreSQL
    replica of the daemon's: every response contains the replication lag. It contacts an endpoint
    only to check a signature of a node that is a contract.
    Any number of servers may run. They have a lower CPU priority than the daemon.
    """

    def serve_until_stopped(stop: StopSignal) -> None:
        with open_folded_records(load_config(config)) as records:
            # Garbage collection is tuned before all nodes are loaded, because searching the new
            # objects repeatedly would add a fifth to the time of loading them. The second call
            # excludes the nodes from later searches.
            tune_garbage_collection()
            read_api = open_read_api(records, open_reader(records.config), lambda: None)
            tune_garbage_collection()
            api_section = records.config.api
            with serve_app(read_api, api_section, api_section.port) as listen_address:
                get_logger().info("read_api_started", version=__version__, api=listen_address)
                stop.event.wait()
            get_logger().info("process_stopped", by=stop.reason)

    raise_descriptor_limit()
    # At equal priority, the server costs a daemon on a small machine a third of its speed
    # (decision 0217).
    os.nice(NICENESS)
    run_until_signalled(serve_until_stopped)
