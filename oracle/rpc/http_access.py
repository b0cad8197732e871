"""Who we are to a host of our own; by itself: the settings name it, and open no connection."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Who we are to a host of our own, and which one it must be: files, and headers.

    Such a host is asked without the proxies and passwords of the environment.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: tuple[str, str] | None = None
    ca_file: str | None = None
