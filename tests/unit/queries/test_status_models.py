"""The public status is a part of the operator's, and reveals nothing about the machine."""

from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.queries.status_models import (
    OperatorStatus,
    PublicStatus,
    build_operator_health,
    build_public_health,
)


def test_public_status_keys_are_subset_of_operator_status():
    assert PublicStatus.model_fields.keys() - {"as_of"} < OperatorStatus.model_fields.keys()


def test_public_health_omits_finding_details():
    finding = HealthFinding(Condition.NO_ENDPOINT, "https://node.example: connection refused")
    health = HealthReport.from_findings([finding])

    assert build_operator_health(health).reasons == [
        "NO-ENDPOINT: https://node.example: connection refused"
    ]
    public = build_public_health(health)
    assert (public.status, public.conditions) == ("down", ["no_endpoint"])
    assert public.reasons == [Condition.NO_ENDPOINT.title]
