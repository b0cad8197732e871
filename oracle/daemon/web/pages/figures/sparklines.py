"""The sparkline beside a listed node: its last values of QoS, all on the scale 0 to 1."""

from collections.abc import Sequence

from oracle.domain.fixed_point import UNIT
from oracle.queries.api.recent_courses import MAX_TREND_POINTS

WIDTH, HEIGHT = 90, 20
_MARGIN = 2


def build_sparkline_path(qos_values: Sequence[int]) -> str | None:
    """Return the SVG path of values in units of 10^-18, or None for fewer than two values.

    The newest value is at the right end; the step width is the same in every row.
    """
    if len(qos_values) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    step = (WIDTH - 2 * _MARGIN) / (MAX_TREND_POINTS - 1)
    first_x = WIDTH - _MARGIN - step * (len(qos_values) - 1)
    points = (
        f"{first_x + step * index:.1f} {_get_y(qos)}" for index, qos in enumerate(qos_values)
    )
    return "M" + " L".join(points)


def _get_y(qos: int) -> str:
    return f"{HEIGHT - _MARGIN - qos * (HEIGHT - 2 * _MARGIN) / UNIT:.1f}"
