"""The generated reference pages.

`make reference` writes the pages to `docs/reference/`, where they are committed; a test fails if
a committed page is stale. Each description is written once, next to the code: as the help of a
command, the comment above a setting or a table, the help text of a metric, the annotations of an
alert, the description of a log event, the docstring of an HTTP endpoint, or the NatSpec comment in
a contract.
"""
