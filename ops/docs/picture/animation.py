"""Draws an SVG that shows the frames of a terminal in an endless loop.

The SVG contains no scripts.
"""

from collections.abc import Sequence
from html import escape

from picture.frames import COLUMNS, LINES, Frame

_CHARACTER_WIDTH, _LINE_HEIGHT, _MARGIN = 8.4, 18, 14
_FRAME_SECONDS, _LAST_FRAME_SECONDS = 1.2, 8.0
_COLOURS = {"green": "#5fbf72", "red": "#ef6b6b", "yellow": "#e3b341", "cyan": "#58c4dc"}


def render_svg(frames: Sequence[Frame], source_hash: str) -> str:
    """Render the SVG.

    `source_hash` is written into a comment. The last frame is shown longer than the others.
    Readers who prefer reduced motion only see this frame.
    """
    width = round(COLUMNS * _CHARACTER_WIDTH + 2 * _MARGIN)
    height = LINES * _LINE_HEIGHT + 2 * _MARGIN
    *earlier_frames, last_frame = [_render_frame(frame) for frame in frames]
    frame_groups = [
        f'<g class="f" style="animation-delay:{index * _FRAME_SECONDS:.1f}s">{svg}</g>'
        for index, svg in enumerate(earlier_frames)
    ]
    delay = len(earlier_frames) * _FRAME_SECONDS
    frame_groups.append(f'<g class="l" style="animation-delay:{delay:.1f}s">{last_frame}</g>')
    svg_start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        "<title>The demo of qos-oracle on a terminal</title>"
    )
    background = f'<rect width="{width}" height="{height}" rx="8" fill="#11161c"/>'
    svg_parts = [
        svg_start,
        f"<!-- made from {source_hash} -->",
        f"<style>{_render_style(len(earlier_frames))}</style>",
    ]
    return "\n".join([*svg_parts, background, *frame_groups, "</svg>", ""])


def _render_style(earlier_frame_count: int) -> str:
    total_seconds = earlier_frame_count * _FRAME_SECONDS + _LAST_FRAME_SECONDS
    frame_percent = 100 * _FRAME_SECONDS / total_seconds
    last_percent = 100 * _LAST_FRAME_SECONDS / total_seconds
    colour_rules = "".join(f".{name}{{fill:{value}}}" for name, value in _COLOURS.items())
    return (
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#cdd6df;"
        "white-space:pre}"
        f"{colour_rules}.bold{{font-weight:bold}}.dim{{opacity:.6}}"
        ".strike{text-decoration:line-through}"
        f".f,.l{{visibility:hidden;animation:f {total_seconds:.1f}s step-end infinite}}"
        ".l{animation-name:l}"
        f"@keyframes f{{0%{{visibility:visible}}{frame_percent:.3f}%{{visibility:hidden}}}}"
        f"@keyframes l{{0%{{visibility:visible}}{last_percent:.3f}%{{visibility:hidden}}}}"
        "@media (prefers-reduced-motion:reduce){.f,.l{animation:none}.l{visibility:visible}}"
    )


def _render_frame(frame: Frame) -> str:
    lines = []
    for number, parts in enumerate(frame, start=1):
        spans = "".join(
            f'<tspan x="{_MARGIN + part.column * _CHARACTER_WIDTH:.1f}"'
            f"{_format_class_attribute(part.css_classes)}>{escape(part.text, quote=False)}</tspan>"
            for part in parts
        )
        if spans:
            lines.append(
                f'<text xml:space="preserve" y="{number * _LINE_HEIGHT + 8}">{spans}</text>'
            )
    return "".join(lines)


def _format_class_attribute(style: str) -> str:
    return f' class="{style}"' if style else ""
