"""What is signed, to the byte: one configuration, a report under it, a kickout on that report."""

from oracle.domain.ids import Address, Hash
from oracle.signing.typed_data import (
    Domain,
    KickStatement,
    ReportStatement,
    RootStatement,
    compute_config_digest,
)
from tests.support.vectors import Vector, named_vectors, vectors_of

TYPED = named_vectors("typed", file="rounds")
CONFIG, REPORT, KICK = TYPED["config"], TYPED["report"], TYPED["kick"]
ROOT_REPORT = TYPED["root_report"]
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


@vectors_of("data", file="rounds")
def test_only_report_with_vector_data_has_vector_digest(vector: Vector):
    report = ReportStatement(
        Hash(CONFIG["digest"]),
        REPORT["round"],
        Hash(REPORT["prev"]),
        REPORT["as_of"],
        Hash(REPORT["as_of_hash"]),
        REPORT["deadline"],
        bytes.fromhex(vector["blob"][2:]),
    )

    is_of_it = vector["id"] == REPORT["data"]
    assert (report.compute_digest(DOMAIN) == REPORT["digest"]) is is_of_it


def test_digest_of_root_report_matches_vector():
    report = RootStatement(
        Hash(CONFIG["digest"]),
        ROOT_REPORT["round"],
        Hash(ROOT_REPORT["prev"]),
        ROOT_REPORT["as_of"],
        Hash(ROOT_REPORT["as_of_hash"]),
        ROOT_REPORT["deadline"],
        Hash(ROOT_REPORT["root"]),
    )

    assert report.compute_digest(DOMAIN) == ROOT_REPORT["digest"]


def test_kick_digest_matches_vector():
    kick = KickStatement(
        Hash(CONFIG["digest"]),
        KICK["round"],
        Hash(KICK["report"]),
        Address(KICK["node"]),
        Hash(KICK["evidence"]),
        KICK["deadline"],
    )

    assert kick.report == REPORT["digest"]
    assert kick.compute_digest(DOMAIN) == KICK["digest"]
