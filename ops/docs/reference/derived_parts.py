"""Generates parts of hand-written files from declarations (`make reference`).

The comments of `config/example.toml` come from the settings, the tables of rules in `scoring.js`
from the rules, the kinds of events of the read API from the stream, and the runbook's table of
alerts from their annotations.
"""

import json
import re
import textwrap
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from oracle.domain.scoring.rule_fields import (
    get_rule_info,
    get_rule_value_type,
    is_fraction,
    is_optional,
    rule_to_json,
)
from oracle.domain.scoring.rules import Rules
from oracle.queries.api.records.event_feed import EVENT_KINDS
from reference.alerts_page import read_alerts
from reference.markdown import render_table
from reference.parts import replace_parts
from reference.settings_page import iter_settings

_SECTION = re.compile(r"(?:# )?\[{1,2}(\w+)\]{1,2}")
_EXAMPLE_WIDTH, _PAGE_WIDTH = 100, 120
_RULE_TABLES = re.compile(
    r"const RULE_TYPES = \{\n.*?\n\};\nconst DEFAULT_RULES = \{\n.*?\n\};\n", re.DOTALL
)
_TYPE_NAMES = {str: "text", int: "integer", bool: "boolean", tuple: "integers"}


def update_example_settings(text: str) -> str:
    """Update the comment above each setting in the text of `config/example.toml`.

    The lines with values are kept. A setting without a line is inserted below the last setting of
    its section, as a comment with its default value.
    """
    setting_by_name = {setting.name: setting for setting in iter_settings()}
    lines: list[str] = []
    end_by_section: dict[str, int] = {}
    section = ""
    comment_start = 0
    for line in text.split("\n"):
        header, key = _SECTION.fullmatch(line), re.match(r"(?:# )?(\w+) = ", line)
        setting = setting_by_name.pop(f"{section}.{key[1]}", None) if key else None
        if setting is not None:
            lines[comment_start:] = _wrap_comment(setting.about)
        lines.append(line)
        if header is not None:
            section = header[1]
        if header is not None or setting is not None:
            end_by_section[section] = len(lines)
        if header is not None or setting is not None or not line.startswith("#"):
            comment_start = len(lines)
    for setting in reversed(setting_by_name.values()):
        end_line = end_by_section[setting.name.partition(".")[0]]
        name = setting.name.rpartition(".")[2]
        lines[end_line:end_line] = [
            *_wrap_comment(setting.about),
            f"# {name} = {setting.default.strip('`')}",
        ]
    return "\n".join(lines)


def _wrap_comment(comment: str) -> list[str]:
    return textwrap.wrap(
        comment,
        _EXAMPLE_WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def update_rule_tables(script: str) -> str:
    """Update the types and defaults of rules in the text of `scoring.js`.

    The legacy rules are left out.
    """
    rule_fields = [rule_field for rule_field in fields(Rules) if rule_field.name != "legacy"]
    types = [
        f"  {rule_field.name}: {json.dumps(_describe_rule_type(rule_field))},"
        for rule_field in rule_fields
    ]
    defaults = [
        f"  {rule_field.name}: {json.dumps(rule_to_json(rule_field, rule_field.default))},"
        for rule_field in rule_fields
        if rule_field.default is not MISSING
    ]
    tables_text = "\n".join([
        "const RULE_TYPES = {", *types, "};", "const DEFAULT_RULES = {", *defaults, "};", ""
    ])  # fmt: skip
    return _RULE_TABLES.sub(lambda _: tables_text, script)


def _describe_rule_type(rule_field: Field[Any]) -> str | list[str]:
    """Return the name of a rule's type or the list of its choices."""
    info = get_rule_info(rule_field)
    if info is not None and info.bounds is not None and info.bounds.choices:
        return list(info.bounds.choices)
    if is_fraction(rule_field):
        return "decimal?" if is_optional(rule_field) else "decimal"
    return _TYPE_NAMES[get_rule_value_type(rule_field)]


def update_event_kinds(page: str) -> str:
    """Update the list of event kinds in the text of the read API's page."""
    kinds = textwrap.fill(", ".join(f"`{kind}`" for kind in EVENT_KINDS) + ".", _PAGE_WIDTH)
    return replace_parts(page, re.compile("kinds of events"), lambda _: f"{kinds}\n")


def update_alert_index(page: str) -> str:
    """Update the table of alerts in the text of the runbook's start page."""
    names_by_page: dict[str, list[str]] = {}
    for alert in read_alerts():
        names_by_page.setdefault(Path(alert.runbook).stem, []).append(alert.name)
    rows = [
        (", ".join(f"`{name}`" for name in names), f"[{stem}]({stem}.md)")
        for stem, names in names_by_page.items()
    ]
    table = render_table(("alert", "page"), rows)
    return replace_parts(page, re.compile("table of alerts"), lambda _: table)
