"""The signed bytes of a configuration, and of a report under it."""

from oracle.domain.ids import Address, Hash
from oracle.signing.typed_data import Domain, ReportStatement
from tests.support.config_digest import compute_config_digest
from tests.support.vectors import load_named_vectors

TYPED = load_named_vectors("typed", file="rounds")
CONFIG = TYPED["config"]
REPORT = TYPED["report"]
DOMAIN = Domain(CONFIG["chain_id"], Address(CONFIG["contract"]))


def test_config_digest_matches_vector():
    digest = compute_config_digest(
        DOMAIN,
        CONFIG["count"],
        [Address(signer) for signer in CONFIG["signers"]],
        CONFIG["quorum"],
        Hash(CONFIG["rules_hash"]),
    )

    assert digest == CONFIG["digest"]


def test_report_digest_matches_vector():
    report = ReportStatement(
        config=Hash(CONFIG["digest"]),
        round=REPORT["round"],
        prev=Hash(REPORT["prev"]),
        as_of=REPORT["as_of"],
        as_of_hash=Hash(REPORT["as_of_hash"]),
        deadline=REPORT["deadline"],
        root=Hash(REPORT["root"]),
    )

    assert report.compute_digest(DOMAIN) == REPORT["digest"]
