"""The first rows of the dashboard: how it stands, who is best and worst, who is told."""

from dashboard.panels import (
    COUNT,
    HERE,
    PER_SECOND,
    SECONDS,
    SHARE,
    Kind,
    Line,
    Panel,
    Row,
    now,
    rate,
)

_SHOWN = 20


def _first(function: str, legend: str) -> Line:
    return Line(f"{function}({_SHOWN}, oracle_node_qos_ratio{{{HERE}}})", legend)


ROWS = (
    Row(
        "At a glance",
        (
            Panel(
                "Seconds behind the head",
                SECONDS,
                (now("oracle_lag_seconds", legend="behind"),),
                kind=Kind.STAT,
            ),
            Panel(
                "Members that may be selected",
                COUNT,
                (
                    Line(
                        f'sum(oracle_nodes{{{HERE}, status=~"available|busy"}})'
                        f" - sum(oracle_excluded_nodes{{{HERE}}})",
                        "selectable",
                    ),
                ),
                kind=Kind.STAT,
            ),
            Panel(
                "QoS of the middle node",
                SHARE,
                (Line(f"histogram_quantile(0.5, oracle_qos_ratio_bucket{{{HERE}}})", "median"),),
                kind=Kind.STAT,
            ),
        ),
    ),
    Row(
        "Which nodes? (with [metrics] nodes)",
        (
            Panel("The best", SHARE, (_first("topk", "{{node}}"),), kind=Kind.TABLE),
            Panel("The worst", SHARE, (_first("bottomk", "{{node}}"),), kind=Kind.TABLE),
            Panel(
                "Reliability of those that are excluded",
                SHARE,
                (
                    Line(
                        f"oracle_node_reliability_ratio{{{HERE}}}"
                        f" and (oracle_node_excluded{{{HERE}}} == 1)",
                        "{{node}}",
                    ),
                ),
            ),
            Panel(
                "Members without a series of their own",
                COUNT,
                (now("oracle_node_series_omitted", legend="left out"),),
            ),
        ),
    ),
    Row(
        "Is everybody told? (with [[notify]])",
        (
            Panel("Messages taken", PER_SECOND, (rate("oracle_notify_messages_total", "target"),)),
            Panel("Notices to come", COUNT, (now("oracle_notify_notices_waiting", "target"),)),
            Panel(
                "Tries of the next message, in vain",
                COUNT,
                (now("oracle_notify_consecutive_failures", "target"),),
            ),
        ),
    ),
)
