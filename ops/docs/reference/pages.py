"""Which pages there are."""

from collections.abc import Callable, Mapping

from reference import (
    alerts_page,
    cli_page,
    http_page,
    log_events_page,
    metrics_page,
    settings_page,
    tables_page,
)

PAGES: Mapping[str, Callable[[], str]] = {
    "cli.md": cli_page.page,
    "settings.md": settings_page.page,
    "metrics.md": metrics_page.page,
    "alerts.md": alerts_page.page,
    "log-events.md": log_events_page.page,
    "http.md": http_page.page,
    "database.md": tables_page.page,
}
