"""Which settings may be shown and which hold secrets; each is in one of the two (as Lido's are).

Secret ones are URLs: of them scheme, host and port are shown, and what else is in them is blacked
out wherever it turns up. No setting holds a key or a password of a keystore: those lie in files.
"""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from oracle.telemetry.safe_text import tokens_in_host

SECRET = frozenset(
    {
        "database.url",
        "chain.endpoints",
        # A host may have a key in it.
        "chain.providers",
        "chain.websocket",
        "keys.signer_remote_url",
        "keys.transmitter_remote_url",
        "keys.dispatcher_remote_url",
        "keys.kms_endpoint",
        "reporters.peers",
        "feed.url",
        "feed.compare_url",
        "notify.url",
        "tracing.endpoint",
    }
)
_LISTENER = (
    "host",
    "port",
    "certificate",
    "certificate_key",
    "client_ca_file",
    "max_connections",
    "max_connections_per_address",
    "header_seconds",
    "answer_seconds",
    "requests_per_second",
)
# By section, in the order of the settings.
_PUBLIC: Mapping[str, tuple[str, ...]] = {
    "chain": (
        "id",
        "checkpoint_block",
        "checkpoint_hash",
        "start_block",
        "finality_depth",
        "finality_seconds",
        "poll_seconds",
        "most_answer_mib",
    ),
    "network": (
        "profile",
        "contracts",
        "options",
        "labels",
    ),
    "feed": (
        "profile",
        "may_publish",
        "start_id",
        "poll_seconds",
        "page_rows",
        "settle_seconds",
        "silent_seconds",
        "reread_seconds",
        "timeout_seconds",
        "most_answer_mib",
        "drift_seconds",
    ),
    "verify": (
        "head",
        "history",
        "receipts",
        "every_header",
        "audit_share",
    ),
    "history": (
        "executor",
        "scheduler",
        "workers",
        "stage",
    ),
    "oracle": (
        "address",
        "publish",
        "level",
        "period_seconds",
        "heartbeat_seconds",
        "deviation",
        "report_ttl_seconds",
        "anchor_window",
        "evidence_folder",
        "kick_after_rounds",
        "max_words",
        "min_scores",
        "cheap_fee_wei",
        "least_words",
        "least_change",
        "sanity_changed_share",
        "sanity_changed_by",
        "sanity_kick_share",
        "sanity_events_share",
        "sanity_periods",
        "sanity_least_members",
    ),
    "rules": (
        "set",
        "close",
        "change",
    ),
    "dispatch": (
        "enabled",
        "change",
        "start_block",
        "policy",
        "weight_floor",
        "queue_alpha",
        "fixed_seconds",
        "unit_seconds",
        "max_in_flight",
        "downloads_per_day",
        "downloads_per_node_per_day",
        "results_folder",
    ),
    "probing": (
        "enabled",
        "window_seconds",
        "fee_wei",
        "max_fee_per_window_wei",
        "group",
        "kind",
        "models",
        "size",
        "timeout_seconds",
    ),
    "keys": (
        "signer_keystore",
        "signer_password_file",
        "signer_kms_key_id",
        "signer_env",
        "signer_address",
        "transmitter_keystore",
        "transmitter_password_file",
        "transmitter_kms_key_id",
        "transmitter_env",
        "transmitter_address",
        "dispatcher_keystore",
        "dispatcher_password_file",
        "dispatcher_kms_key_id",
        "dispatcher_env",
        "dispatcher_address",
        "kms_region",
        "remote_certificate",
        "remote_certificate_key",
        "remote_ca_file",
        "remote_token_file",
        "remote_typed_data_method",
        "timeout_seconds",
    ),
    "limits": (
        "max_fee_per_gas_wei",
        "max_cost_per_transaction_wei",
        "max_cost_per_hour_wei",
        "max_cost_per_day_wei",
        "min_tip_wei",
        "l1_fee",
        "bump_blocks",
        "bump_seconds",
        "max_attempts",
        "max_in_flight",
        "confirmations",
    ),
    "reporters": (
        "certificate",
        "certificate_key",
        "ca_file",
        "poll_seconds",
        "timeout_seconds",
        "transmit_rank",
        "transmit_delay_blocks",
        "transmit_delay_seconds",
    ),
    "web": _LISTENER,
    "statements": _LISTENER,
    "api": (
        *_LISTENER,
        "enabled",
        "cors",
        "max_streams",
        "max_streams_per_address",
        "stream_seconds",
    ),
    "notify": (
        "name",
        "secret_file",
        "kinds",
        "nodes",
        "timeout_seconds",
        "allow_private",
        "heartbeat_seconds",
    ),
    "metrics": (
        "nodes",
        "most_nodes",
    ),
    "log": (
        "format",
        "level",
    ),
}
PUBLIC = frozenset(f"{section}.{name}" for section, names in _PUBLIC.items() for name in names)

# A shorter part of a path is a word ("v3", "mainnet"), and would black out half the log.
_SHORTEST = 16
_SHORTEST_PASSWORD = 6
# Parameters of libpq that are passwords, however short.
_PASSWORDS = frozenset({"password", "sslpassword"})


def is_secret_in(written: Mapping[str, object]) -> bool:
    """Tell whether a file with these settings, as they are written, opens a door to its reader."""
    return any(secret_parts(_urls_in(written)))


def _urls_in(written: Mapping[str, object]) -> Iterator[str]:
    for name in SECRET:
        section, setting = name.split(".")
        settings = written.get(section)
        for each in settings if isinstance(settings, list) else [settings]:
            value = each.get(setting) if isinstance(each, Mapping) else None
            told = value if isinstance(value, list) else [value]
            yield from (one for one in told if isinstance(one, str))


def secret_parts(urls: Iterable[str]) -> Iterator[str]:
    """Yield what must not be seen of URLs: passwords, and tokens in whatever part of them."""
    for url in urls:
        try:
            parts = urlsplit(url)
        except ValueError:
            # It is refused where it is used.
            continue
        if parts.scheme.startswith("sqlite"):
            continue
        yield from _credentials(parts)
        yield from tokens_in_host(parts.hostname or "")
        queried = parse_qsl(parts.query)
        yield from (value for name, value in queried if _is_password(name, value))
        found = [*parts.path.split("/"), *(value for _, value in queried)]
        yield from (part for part in found if len(part) >= _SHORTEST)


def _credentials(parts: SplitResult) -> Iterator[str]:
    """Yield the secret ones of user name and password, as they are written and as they are sent.

    A user name is one where it stands alone before a host of the web, as tokens do, or is as long
    as a token; a database's user is none.
    """
    user, password = parts.username or "", parts.password or ""
    is_database = parts.scheme.startswith("postgres")
    shortest = _SHORTEST if password else _SHORTEST_PASSWORD
    if user and not is_database and len(user) >= shortest:
        yield from {user, unquote(user)}
    if len(password) >= _SHORTEST_PASSWORD:
        yield from {password, unquote(password)}


def _is_password(name: str, value: str) -> bool:
    return name in _PASSWORDS and len(value) >= _SHORTEST_PASSWORD
