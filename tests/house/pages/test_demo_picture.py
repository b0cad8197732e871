"""README's picture of the demo comes from a run of the current code, and is complete."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Group
from rich.text import Text

from picture.animation import render_svg
from picture.frames import COLUMNS, LINES, RecordedScreen, render_frame, render_text_frame
from picture.sources import hash_sources
from tests.unit.devnet.test_screen import snapshot

PICTURE = Path(__file__).resolve().parents[3] / "docs" / "demo.svg"
SVG = "{http://www.w3.org/2000/svg}"


def test_picture_matches_the_current_demo():
    assert f"<!-- made from {hash_sources()} -->" in PICTURE.read_text("utf-8"), "`make picture`"


def test_picture_ends_with_the_verdict_and_contains_no_script():
    root = ET.fromstring(PICTURE.read_text("utf-8"))  # noqa: S314 - our own
    *_, last = root.iter(f"{SVG}g")
    last_frame_text = " ".join("".join(line.itertext()) for line in last.iter(f"{SVG}text"))

    assert "hopeless: Kicked out: its last 50 tasks brought" in last_frame_text
    assert "All checks passed." in last_frame_text
    assert not list(root.iter(f"{SVG}script"))


def test_picture_contains_every_act():
    phases = re.findall(r">([1-7])/7 ", PICTURE.read_text("utf-8"))
    assert list(dict.fromkeys(phases)) == ["1", "2", "3", "4", "5", "6", "7"]


def test_frame_keeps_columns_and_styles_within_terminal_size():
    content = Group(*(Text("a  b" * COLUMNS, style="bold red") for _ in range(LINES)))
    frame = render_frame(content)

    assert len(frame) == LINES
    assert {part.css_classes for line in frame for part in line} == {"red bold"}
    assert all(part.column + len(part.text) <= COLUMNS for line in frame for part in line)


def test_program_output_is_escaped():
    drawn = render_svg([render_text_frame("<b>&\x1b[32mgood\x1b[0m")] * 2, "here")

    assert "&lt;b&gt;&amp;" in drawn
    assert 'class="green">good<' in drawn
    ET.fromstring(drawn)  # noqa: S314 - our own


def test_first_frame_of_each_act_is_kept():
    screen = RecordedScreen(start=0)
    for head, reports in enumerate((0, 0, 1, 1), start=1):
        screen.update(snapshot(reports=reports), [], head=head)

    begun = ["".join(part.text for part in frame[1])[:3] for frame in screen.list_frames()]
    assert begun == ["1/7", "2/7", "2/7"]
