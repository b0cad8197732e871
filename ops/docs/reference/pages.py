"""Lists the generated pages and the files with generated parts, by file name."""

from collections.abc import Callable, Mapping

from reference import (
    alerts_page,
    cli_page,
    contracts_page,
    derived_parts,
    event_tables,
    gas_page,
    http_page,
    included_code,
    llms_text,
    log_events_page,
    metrics_page,
    settings_page,
    tables_page,
)

PAGES: Mapping[str, Callable[[], str]] = {
    "cli": cli_page.render_page,
    "settings": settings_page.render_page,
    "metrics": metrics_page.render_page,
    "alerts": alerts_page.render_page,
    "log-events": log_events_page.render_page,
    "http": http_page.render_page,
    "database": tables_page.render_page,
    "contract-interface": contracts_page.render_page,
    "gas": gas_page.render_page,
}
# Files with generated parts. The function regenerates all parts of the file.
PARTS: Mapping[str, Callable[[str], str]] = {
    llms_text.SERVED_PATH: llms_text.render_served_text,
    gas_page.SCALE_PAGE: gas_page.update_costs,
    **dict.fromkeys(included_code.PAGES, included_code.include_code),
    event_tables.PAGE: event_tables.replace_generated_parts,
    "config/example.toml": derived_parts.update_example_settings,
    "oracle/daemon/web/pages/static/verify/scoring.js": derived_parts.update_rule_tables,
    "docs/reference/read-api.md": derived_parts.update_event_kinds,
    "docs/how-to/runbook/README.md": derived_parts.update_alert_index,
}
