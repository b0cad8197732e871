"""Runs the demo and draws its screen as an SVG file (`python -m picture docs/demo.svg`)."""

import io
import sys
from pathlib import Path

from rich.console import Console

from devnet.commands.demo_verdict import explain_node_score, print_verdict
from devnet.demo.demo_nodes import HOPELESS
from devnet.demo.show import START_TIME, DemoOptions, start_demo
from oracle.errors import FatalError
from picture.animation import render_svg
from picture.frames import COLUMNS, RecordedScreen, render_text_frame
from picture.sources import hash_sources


def main(path: Path) -> None:
    """Run the demo and write its picture to `path`.

    Raises:
        FatalError: the demo found faults.
    """
    options = DemoOptions()
    screen = RecordedScreen(start=START_TIME)
    with start_demo(screen, options) as (show, daemon, _):
        show.run_until_kickout(daemon, options)
        summary = show.finish_and_verify_demo(daemon, options)
        (node,) = (outcome.node for outcome in summary.nodes if outcome.name == HOPELESS.name)
        score_explanation = explain_node_score(daemon.configuration, node)
        daemon.stop()
    if not summary.has_passed:
        raise FatalError("; ".join(summary.faults))
    text_buffer = io.StringIO()
    console = Console(
        file=text_buffer,
        width=COLUMNS,
        force_terminal=True,
        color_system="standard",
        highlight=False,
    )
    print_verdict(summary, score_explanation, console)
    frames = [*screen.list_frames(), render_text_frame(text_buffer.getvalue())]
    path.write_text(render_svg(frames, hash_sources()), "utf-8")


main(Path(sys.argv[1]))
