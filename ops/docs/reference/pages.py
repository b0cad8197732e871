"""The generated pages by file name."""

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
    "cli": cli_page.page,
    "settings": settings_page.page,
    "metrics": metrics_page.page,
    "alerts": alerts_page.page,
    "log-events": log_events_page.page,
    "http": http_page.page,
    "database": tables_page.page,
}
