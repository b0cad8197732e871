"""Builds the page `/verify` as a single file that checks evidence without this server.

All scripts and styles are in the file, so that it can be saved, hashed, and opened without a
network. The policy of the page permits only these scripts and styles, by their hashes. See
docs/explanation/pages.md#verify.
"""

import base64
import hashlib
import json
from collections import defaultdict
from functools import cache

from oracle.chain.profiles.profile_loader import list_shipped_profiles, load_profile
from oracle.daemon.web.pages.page_frame import STATIC
from oracle.domain.events.network_events import NAME_BY_TYPE

_FOLDER = STATIC / "verify"
# Scripts of the page, in the order of their dependencies.
SCRIPTS = (
    "vendor/keccak.min.js",
    "hashes.js",
    "proof.js",
    "verify/incidents.js",
    "verify/scoring.js",
    "verify/round.js",
    "verify/signatures.js",
    "verify/chain_proofs.js",
    "verify/bundle_checks.js",
    "verify/objection_checks.js",
    "verify/score_checks.js",
    "verify/kickout_checks.js",
    "verify/event_checks.js",
    "verify/log_checks.js",
    "verify/chain_checks.js",
    "verify/verdict.js",
    "verify/verify_page.js",
)
_STYLES = ("pages.css", "verify/verify.css")
# This directive is only valid in a header, so the page itself cannot contain it.
_HEADER_POLICY = "frame-ancestors 'none'"


@cache
def build_verify_page() -> str:
    """Build the verify page, which is byte-identical for the same version."""
    script = "\n".join(('"use strict";', build_profile_script(), *map(_read_static_file, SCRIPTS)))
    style = "\n".join(map(_read_static_file, _STYLES))
    if "</script" in script or "</style" in style:
        raise ValueError(
            "a script contains </script, or a style sheet </style, so the page cannot contain it"
        )
    page = (_FOLDER / "page.html").read_text("utf-8")
    for name, text in (
        ("policy", _build_content_security_policy(script, style)),
        ("style", style),
        ("script", script),
    ):
        page = page.replace("{" + name + "}", text, 1)
    return page


def build_profile_script() -> str:
    """Build a script with the shipped profiles' event types by topic, keyed by identity.

    The rules id contains the identity of the profile, so that the page can check that a log has
    the meaning that a bundle states. A profile with options that differ from its defaults has
    another identity.
    """
    profiles = {}
    for name in list_shipped_profiles():
        profile = load_profile(name)
        event_types = defaultdict[str, set[str]](set)
        for contract in profile.contracts.values():
            for event in contract.events:
                event_types[event.signature.digest] |= {
                    NAME_BY_TYPE[mapping.event_type]
                    for mapping in event.mappings
                    if mapping.event_type is not None
                }
        profiles[profile.identity] = {
            "holds_kickouts": profile.holds_kickouts,
            "types": {topic: sorted(names) for topic, names in event_types.items()},
        }
    return f"const SHIPPED_PROFILES = {json.dumps(profiles, sort_keys=True)};"


def build_verify_page_policy() -> str:
    """Return the page's Content-Security-Policy header, which also forbids frames."""
    page = build_verify_page()
    policy = page.split('http-equiv="Content-Security-Policy" content="', 1)[1].split('"', 1)[0]
    return f"{policy}; {_HEADER_POLICY}"


def _build_content_security_policy(script: str, style: str) -> str:
    """Build a policy that allows only the page itself and the reader's own requests.

    Before its first request, the page restricts itself to the addresses that the reader entered.
    """
    return (
        f"default-src 'none'; script-src '{_build_csp_hash(script)}'; "
        f"style-src '{_build_csp_hash(style)}'; "
        "connect-src http: https:; base-uri 'none'; form-action 'none'"
    )


def _build_csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _read_static_file(name: str) -> str:
    return (STATIC / name).read_text("utf-8")
