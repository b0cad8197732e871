"""The dashboard's first rows, with an overview, some nodes, and notifications.

The nodes are the best and the worst.
"""

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
    build_gauge_line,
    build_rate_line,
)

_RANKED_NODES = 20


def _build_ranked_line(function: str, legend: str) -> Line:
    return Line(f"{function}({_RANKED_NODES}, oracle_node_qos_ratio{{{HERE}}})", legend)


ROWS = (
    Row(
        "At a glance",
        (
            Panel(
                "Seconds behind the head",
                SECONDS,
                (build_gauge_line("oracle_lag_seconds", legend="behind"),),
                kind=Kind.STAT,
            ),
            Panel(
                "Selectable members",
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
                "Median QoS",
                SHARE,
                (Line(f"histogram_quantile(0.5, oracle_qos_ratio_bucket{{{HERE}}})", "median"),),
                kind=Kind.STAT,
            ),
        ),
    ),
    Row(
        "Nodes (with [metrics] nodes)",
        (
            Panel("Best nodes", SHARE, (_build_ranked_line("topk", "{{node}}"),), kind=Kind.TABLE),
            Panel(
                "Worst nodes", SHARE, (_build_ranked_line("bottomk", "{{node}}"),), kind=Kind.TABLE
            ),
            Panel(
                "Reliability of excluded nodes",
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
                "Members without their own series",
                COUNT,
                (build_gauge_line("oracle_node_series_omitted", legend="left out"),),
            ),
        ),
    ),
    Row(
        "Notifications (with [[notify]] or [subscriptions])",
        (
            Panel(
                "Messages delivered",
                PER_SECOND,
                (build_rate_line("oracle_notify_messages_total", "target"),),
            ),
            Panel(
                "Notices waiting",
                COUNT,
                (build_gauge_line("oracle_notify_notices_waiting", "target"),),
            ),
            Panel(
                "Failed attempts of the next message",
                COUNT,
                (build_gauge_line("oracle_notify_consecutive_failures", "target"),),
            ),
            Panel(
                "Subscriptions of node owners",
                COUNT,
                (build_gauge_line("oracle_notify_subscriptions", "state"),),
            ),
            Panel(
                "Messages to subscribed owners",
                PER_SECOND,
                (build_rate_line("oracle_notify_subscriber_messages_total", "result"),),
            ),
        ),
    ),
)
