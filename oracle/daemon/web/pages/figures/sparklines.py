"""The small course beside a node in a list: its last values of QoS, all on the scale 0 to 1."""

from collections.abc import Sequence

from oracle.domain.fixed_point import UNIT
from oracle.queries.api.recent_courses import MOST_POINTS

WIDTH, HEIGHT = 90, 20
_MARGIN = 2


def sparkline(course: Sequence[int]) -> str | None:
    """Return the path of SVG of values in units of 10^-18; None: one value is no course.

    The newest value stands at the right end; a step is as wide in every row.
    """
    if len(course) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    step = (WIDTH - 2 * _MARGIN) / (MOST_POINTS - 1)
    begin = WIDTH - _MARGIN - step * (len(course) - 1)
    points = (f"{begin + step * at:.1f} {_height(qos)}" for at, qos in enumerate(course))
    return "M" + " L".join(points)


def _height(qos: int) -> str:
    return f"{HEIGHT - _MARGIN - qos * (HEIGHT - 2 * _MARGIN) / UNIT:.1f}"
