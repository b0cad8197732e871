"""Words for logs, numbers for dashboards."""
