"""`--dry-run` of an operator's raise and no-op: the figures of the real one, and its refusals."""

from dataclasses import replace

import pytest

from oracle.entrypoints.outbox_rehearsal import rehearsed_bump, rehearsed_no_op
from oracle.errors import InputError
from oracle.services.sending.bumping import bump_now
from oracle.services.sending.retargeting import cancel
from oracle.services.sending_settings import SendingSettings
from tests.office import CAPS, Office
from tests.sending.at_sea import GWEI, at_sea, attempts, dear_blocks, fees, only, remembering
from tests.sending.proxy import Proxy

PATIENT = SendingSettings(bump_seconds=600)


def test_a_rehearsed_raise_names_the_fee_of_the_real_one_and_signs_nothing(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    remembering(*proxies)
    at_sea(office, PATIENT)
    dear_blocks(office, 4 * GWEI)

    told = rehearsed_bump(office.desk, only(office))

    assert len(attempts(office)) == 1
    bump_now(office.desk, office.source.heads(), only(office).id)
    assert told == f"up to {fees(office)[1][0]} wei for each gas"


def test_a_rehearsed_no_op_names_the_fee_of_the_real_one_and_signs_nothing(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    remembering(*proxies)
    at_sea(office, PATIENT)
    push = only(office)

    told = rehearsed_no_op(office.desk, push)

    assert len(attempts(office)) == 1
    cancel(office.desk, office.source.heads(), push.id)
    assert told.endswith(f", up to {fees(office)[1][0]} wei for each gas")


def test_what_a_limit_forbids_is_refused_in_rehearsal_too(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office, cap = proxied_office, 6 * GWEI
    remembering(*proxies)
    office.restart(caps=replace(CAPS, fee_per_gas=cap))
    at_sea(office, PATIENT)
    dear_blocks(office, 9 * GWEI)

    said = rf"would not be bumped: .* limits\.max_fee_per_gas_wei allows {cap}"
    with pytest.raises(InputError, match=said):
        rehearsed_bump(office.desk, only(office))
