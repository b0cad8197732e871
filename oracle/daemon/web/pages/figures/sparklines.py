"""The sparkline beside a listed node: its last values of QoS, all on the scale 0 to 1."""

from collections.abc import Sequence

from oracle.domain.fixed_point import UNIT
from oracle.queries.api.recent_courses import MOST_POINTS

WIDTH, HEIGHT = 90, 20
_MARGIN = 2


def sparkline(course: Sequence[int]) -> str | None:
    """Return the SVG path of values in units of 10^-18, or None for fewer than two values.

    The newest value is at the right end; the step width is the same in every row.
    """
    if len(course) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    step = (WIDTH - 2 * _MARGIN) / (MOST_POINTS - 1)
    begin = WIDTH - _MARGIN - step * (len(course) - 1)
    points = (f"{begin + step * at:.1f} {_height(qos)}" for at, qos in enumerate(course))
    return "M" + " L".join(points)


def _height(qos: int) -> str:
    return f"{HEIGHT - _MARGIN - qos * (HEIGHT - 2 * _MARGIN) / UNIT:.1f}"
