"""Draws an SVG without scripts that shows the frames of a terminal in an endless loop."""

from collections.abc import Sequence
from html import escape

from picture.frames import COLUMNS, LINES, Frame

_CHARACTER, _LINE, _MARGIN = 8.4, 18, 14
_FRAME_SECONDS, _LAST_SECONDS = 1.2, 8.0
_COLOURS = {"green": "#5fbf72", "red": "#ef6b6b", "yellow": "#e3b341", "cyan": "#58c4dc"}


def render_svg(frames: Sequence[Frame], made_from: str) -> str:
    """Return the SVG; `made_from` is written into a comment.

    The last frame is shown for longer. Readers who prefer reduced motion only see the last frame.
    """
    width = round(COLUMNS * _CHARACTER + 2 * _MARGIN)
    height = LINES * _LINE + 2 * _MARGIN
    *earlier, last = [_render_frame(frame) for frame in frames]
    groups = [
        f'<g class="f" style="animation-delay:{place * _FRAME_SECONDS:.1f}s">{drawn}</g>'
        for place, drawn in enumerate(earlier)
    ]
    delay = len(earlier) * _FRAME_SECONDS
    groups.append(f'<g class="l" style="animation-delay:{delay:.1f}s">{last}</g>')
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        "<title>The demo of qos-oracle on a terminal</title>"
    )
    ground = f'<rect width="{width}" height="{height}" rx="8" fill="#11161c"/>'
    parts = [opened, f"<!-- made from {made_from} -->", f"<style>{_style(len(earlier))}</style>"]
    return "\n".join([*parts, ground, *groups, "</svg>", ""])


def _style(earlier_frames: int) -> str:
    total_seconds = earlier_frames * _FRAME_SECONDS + _LAST_SECONDS
    frame_percent, last = 100 * _FRAME_SECONDS / total_seconds, 100 * _LAST_SECONDS / total_seconds
    colours = "".join(f".{name}{{fill:{value}}}" for name, value in _COLOURS.items())
    return (
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#cdd6df;"
        "white-space:pre}"
        f"{colours}.bold{{font-weight:bold}}.dim{{opacity:.6}}"
        ".strike{text-decoration:line-through}"
        f".f,.l{{visibility:hidden;animation:f {total_seconds:.1f}s step-end infinite}}"
        ".l{animation-name:l}"
        f"@keyframes f{{0%{{visibility:visible}}{frame_percent:.3f}%{{visibility:hidden}}}}"
        f"@keyframes l{{0%{{visibility:visible}}{last:.3f}%{{visibility:hidden}}}}"
        "@media (prefers-reduced-motion:reduce){.f,.l{animation:none}.l{visibility:visible}}"
    )


def _render_frame(frame: Frame) -> str:
    lines = []
    for number, parts in enumerate(frame, start=1):
        spans = "".join(
            f'<tspan x="{_MARGIN + part.column * _CHARACTER:.1f}"{_class(part.css_classes)}>'
            f"{escape(part.text, quote=False)}</tspan>"
            for part in parts
        )
        if spans:
            lines.append(f'<text xml:space="preserve" y="{number * _LINE + 8}">{spans}</text>')
    return "".join(lines)


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
