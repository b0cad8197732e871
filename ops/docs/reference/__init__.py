"""The reference pages, made from the code that they are about.

`make reference` writes them to `build/reference/`. What a page says of a thing stands in one
place, beside the thing: the help of a command, the comment above a setting or a table, the help
text of a metric, the annotations of an alert, the registry of log events, the docstring of an
endpoint.
"""
