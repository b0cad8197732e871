"""Looks at the contract before anything is sent, and says as whom we work for it."""

import structlog

from oracle.bindings.inspection import inspected
from oracle.bindings.qos_oracle import ContractConfiguration
from oracle.daemon.app import App
from oracle.errors import InputError
from oracle.telemetry import quorum_metrics

_OTHER_RULES = (
    "rulesHash is made of [rules], network.profile and the settings of [oracle] marked * in "
    "docs/operating.md: put back what was changed, or let the contract's admin setRules"
)


def check_contract(app: App) -> ContractConfiguration:
    """Return what the contract is like.

    Raises:
        InputError: it is not as configured.
        TransientError: not enough endpoints answer to know.
    """
    constitution, found = inspected(app.publisher.lines, app.oracle_address, app.expected)
    if found:
        lines = "".join(f"\n  {difference.line()}" for difference in found)
        if any(difference.what == "rulesHash" for difference in found):
            lines += f"\n  {_OTHER_RULES}"
        raise InputError(f"the oracle contract is not as configured; nothing is sent{lines}")
    return constitution


def introduce(app: App, constitution: ContractConfiguration) -> None:
    """Say who signs and who sends here, and whose signatures are gathered from where."""
    keys, peers = app.keys, app.peers
    signer = keys.signer.address if keys and keys.signer else None
    transmitter = keys.transmitter.address if keys and keys.transmitter else None
    quorum_metrics.know(constitution.signers)
    structlog.get_logger().info(
        "reporting",
        contract=app.oracle_address,
        signer=signer,
        transmitter=transmitter,
        rank=None if transmitter is None else app.config.reporters.transmit_rank,
        quorum=constitution.quorum,
        signers=list(constitution.signers),
        round=constitution.standing.head.round,
        peers=[] if peers is None else [peer.name for peer in peers.all],
    )
