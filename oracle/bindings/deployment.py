"""Plans the address, code and cost of a contract's deployment, and then sends it."""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace

from oracle.bindings import qos_roots, qos_words
from oracle.bindings.codec import build_creation_code
from oracle.bindings.contract_errors import decode_refusal
from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import encode_rlp
from oracle.domain.events.oracle_events import ContractKickLimits, RootsLimits
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.domain.reports.node_kicks import NEVER_EXPIRES
from oracle.domain.reports.report import ReportSettings
from oracle.errors import FatalError, InputError, TransientError
from oracle.rpc.fanout import PoolView, expect_response_format, parse_quantity
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RevertError
from oracle.signing.signer import Fees, Signer, TransactionRequest
from oracle.txmgr.client.fee_quote import add_gas_margin
from oracle.txmgr.client.receipts import (
    Receipt,
    fetch_balance,
    fetch_receipts,
    fetch_transaction_count,
)
from oracle.txmgr.client.send_raw import send_raw_transaction

DEFAULT_KICK_LIMITS = ContractKickLimits(
    kick_gas=600_000,
    kick_cooldown=NEVER_EXPIRES,
    bucket_most=3,
    bucket_per_frame=1,
    bucket_frame=3600,
)
# The defaults suit a network of a few thousand nodes with a round per minute
# (docs/explanation/kickouts.md#limits-in-the-contract).
DEFAULT_LIMITS = RootsLimits(
    min_interval=30,
    anchor_window=200,
    max_age_seconds=7200,
    kick_below=2000,
    veto_delay=3600,
    kick_rounds=3,
    min_open=3,
)
# The loosest limits that the admin can set, even after the timelock's delay.
DEFAULT_FLOORS = RootsLimits(
    min_interval=0,
    anchor_window=8191,
    max_age_seconds=86_400,
    kick_below=2000,
    veto_delay=3600,
    kick_rounds=2,
    min_open=3,
)
# The tightest limits that the pauser can set. Even with these limits, scores stay fresh and a
# kickout completes within a day, given a round per minute and a heartbeat of an hour.
DEFAULT_TIGHTEST = RootsLimits(
    min_interval=60,
    anchor_window=200,
    max_age_seconds=5400,
    kick_below=1000,
    veto_delay=86_400,
    kick_rounds=60,
    min_open=10,
)
# The loosest kickout limits that the admin can set. Both bucket sizes are four times those in
# DEFAULT_KICK_LIMITS; the gas has no lower bound.
DEFAULT_KICK_FLOORS = ContractKickLimits(
    kick_gas=0,
    kick_cooldown=NEVER_EXPIRES,
    bucket_most=12,
    bucket_per_frame=4,
    bucket_frame=3600,
)
# With these floors, the admin can set any limit. They are only for tests and demonstrations.
NO_FLOORS = RootsLimits(
    min_interval=0,
    anchor_window=8191,
    max_age_seconds=30 * 86_400,
    kick_below=10_000,
    veto_delay=0,
    kick_rounds=0,
    min_open=0,
)
NO_KICK_FLOORS = ContractKickLimits(
    kick_gas=0,
    kick_cooldown=NEVER_EXPIRES,
    bucket_most=2**16 - 1,
    bucket_per_frame=2**16 - 1,
    bucket_frame=1,
)
# The contract keeps the roots of the last `DEFAULT_KEPT_ROUNDS` rounds. It uses a root only after
# `DEFAULT_LAG_ROUNDS` newer rounds, so that a wrong root can be struck (withdrawn) before it is
# used.
DEFAULT_KEPT_ROUNDS, DEFAULT_LAG_ROUNDS = 256, 2

# The estimated gas of a deployment is a base amount for the transaction, the contract creation and
# a constructor that makes a few calls, plus an amount for each byte of stored code and of
# calldata.
_BASE_CREATION_GAS, _STORED_BYTE_GAS, _CALLDATA_BYTE_GAS = 200_000, 200, 16


@dataclass(frozen=True, slots=True)
class OracleSetup:
    """The struct `Setup`, an argument of the oracle contract's constructor.

    If `target` is zero, kickouts call no contract. `floors` and `kick_floors` are the loosest
    limits that the admin can ever set, and `tightest` are the tightest limits that the pauser can
    set.
    """

    admin: Address
    signers: tuple[Address, ...]
    rules_hash: Hash
    target: Address = ZERO_ADDRESS
    quorum: int = 1
    pauser: Address = ZERO_ADDRESS
    vetoer: Address = ZERO_ADDRESS
    kept_rounds: int = DEFAULT_KEPT_ROUNDS
    lag_rounds: int = DEFAULT_LAG_ROUNDS
    limits: RootsLimits = field(default=DEFAULT_LIMITS)
    floors: RootsLimits = field(default=DEFAULT_FLOORS)
    tightest: RootsLimits = field(default=DEFAULT_TIGHTEST)
    kick_limits: ContractKickLimits = field(default=DEFAULT_KICK_LIMITS)
    kick_floors: ContractKickLimits = field(default=DEFAULT_KICK_FLOORS)
    expelled: tuple[Address, ...] = ()
    arbitrum: bool = False

    @property
    def creation_code(self) -> str:
        """Return the creation code, including the constructor arguments."""
        return build_creation_code(qos_roots.CONTRACT, self.struct_fields)

    @property
    def struct_fields(self) -> tuple[object, ...]:
        """Return the fields in the order of the contract's struct."""
        return (
            *(self.admin, self.pauser, self.vetoer, self.target, self.signers, self.quorum),
            *(bytes.fromhex(self.rules_hash[2:]), self.kept_rounds, self.lag_rounds),
            *(astuple(self.limits), astuple(self.floors), astuple(self.tightest)),
            *(astuple(self.kick_limits), astuple(self.kick_floors)),
            *(self.expelled, self.arbitrum),
        )


@dataclass(frozen=True, slots=True)
class WordsSetup:
    """The constructor arguments of QoSWords, except the oracle.

    Words of the last round may lower at most `fall_share` of the lanes per day. A lane counts as
    lowered also if its QoS drops by more than `big_fall`; both are in steps of 0.0001. A word that
    is more than `max_rounds` rounds old is stale.
    """

    fall_share: int = 1000
    big_fall: int = 2500
    max_rounds: int = 120

    def build_creation_code(self, oracle: Address) -> str:
        """Build the creation code of the QoSWords contract for an oracle."""
        return build_creation_code(
            qos_words.CONTRACT, oracle, self.fall_share, self.big_fall, self.max_rounds
        )


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """The transaction of a planned deployment.

    `balance` is the sender's balance in wei.
    """

    code: str
    sender: Address
    code_hash: Hash
    gas_limit: int
    fees: Fees
    balance: int

    @property
    def max_cost(self) -> int:
        return self.gas_limit * self.fees.max_fee


def override_limits(limits: RootsLimits, overrides: Mapping[str, int]) -> RootsLimits:
    """Return a copy of the limits in which the named limits are replaced.

    Raises:
        InputError: an override has a name that no limit has.
    """
    limit_names = {limit_field.name for limit_field in fields(limits)}
    for name in overrides:
        if name not in limit_names:
            raise InputError(
                f"unknown limit {name}; expected one of: {', '.join(sorted(limit_names))}"
            )
    return replace(limits, **overrides)


def compute_min_score_age_limit(settings: ReportSettings, lag_rounds: int) -> int:
    """Return the lowest `max_age_seconds` limit at which scores never become stale.

    The next round may follow only after the heartbeat, and a root that is used `lag_rounds` rounds
    later must not be stale by then.
    """
    return max(settings.heartbeat_seconds, (lag_rounds + 1) * settings.period_seconds)


def plan_deployment(
    pool_view: PoolView, code: str, sender: Address, fees: Fees | None
) -> DeploymentPlan:
    """Plan a deployment by simulating it on the newest block.

    Nothing is sent.

    Raises:
        InputError: the constructor rejects the setup, or the gas price is above the configured
            cap.
        TransientError: no endpoint responds.
    """
    try:
        gas_hex = pool_view.request("eth_estimateGas", {"from": sender, "data": code})
    except RevertError as error:
        revert_reason = decode_refusal(error.data) if error.data else error.message
        raise InputError(
            f"the contract's constructor rejects the arguments: {revert_reason}"
        ) from None
    with expect_response_format("an estimate of gas"):
        gas_estimate = parse_quantity(gas_hex)
    return _build_plan(pool_view, code, sender, fees, add_gas_margin(gas_estimate))


def plan_dependent_deployment(
    pool_view: PoolView, code: str, sender: Address, fees: Fees | None
) -> DeploymentPlan:
    """Plan the deployment of a contract whose constructor calls an undeployed contract.

    Such a deployment cannot be simulated, so its gas limit is an upper bound. It covers the
    storage of as many bytes as the creation code has, and the calldata.

    Raises:
        InputError: the gas price is above the configured cap.
        TransientError: no endpoint responds.
    """
    code_byte_count = len(code) // 2 - 1
    gas_limit = _BASE_CREATION_GAS + code_byte_count * (_STORED_BYTE_GAS + _CALLDATA_BYTE_GAS)
    return _build_plan(pool_view, code, sender, fees, gas_limit)


def _build_plan(
    pool_view: PoolView, code: str, sender: Address, fees: Fees | None, gas_limit: int
) -> DeploymentPlan:
    if fees is None:
        raise InputError(
            "limits.max_fee_per_gas_wei: the gas price of the chain is above this limit"
        )
    return DeploymentPlan(
        code=code,
        sender=sender,
        code_hash=Hash("0x" + keccak(bytes.fromhex(code[2:])).hex()),
        gas_limit=gas_limit,
        fees=fees,
        balance=fetch_balance(pool_view, sender),
    )


def compute_contract_address(sender: Address, nonce: int) -> Address:
    """Compute the address of the contract that an account creates with this nonce."""
    encoded_sender_and_nonce = encode_rlp([bytes.fromhex(sender[2:]), nonce])
    return Address("0x" + keccak(encoded_sender_and_nonce)[-20:].hex())


def check_deployer_balance(*plans: DeploymentPlan) -> None:
    """Raise InputError if the deploying account cannot pay for all plans."""
    cost = sum(plan.max_cost for plan in plans)
    balance = min(plan.balance for plan in plans)
    if balance < cost:
        raise InputError(
            f"{plans[0].sender}: the balance of {balance} wei is too low; the deployment may cost "
            f"up to {cost} wei"
        )


def deploy_contract(
    pool: EndpointPool,
    signer: Signer,
    plan: DeploymentPlan,
    chain_id: int,
    wait_for_next_try: Callable[[], bool],
) -> tuple[Address, Receipt]:
    """Deploy a contract, and wait for its receipt.

    The wait ends when `wait_for_next_try` returns False.

    Raises:
        InputError: the account cannot pay for the deployment.
        FatalError: the transaction was mined but reverted.
        TransientError: the transaction is not mined yet; the message has its hash.
    """
    check_deployer_balance(plan)
    pool_view = pool.create_view()
    nonce = fetch_transaction_count(pool_view, plan.sender, "pending")
    code, gas_limit_value, fees = plan.code, plan.gas_limit, plan.fees
    signed_transaction = signer.sign_transaction(
        TransactionRequest(chain_id, nonce, None, code, gas_limit_value, fees)
    )
    send_result = send_raw_transaction(pool, signed_transaction.raw)
    while not (receipt_by_hash := fetch_receipts(pool_view, [signed_transaction.hash])):
        if not wait_for_next_try():
            raise TransientError(
                f"deployment {signed_transaction.hash}: the transaction is not mined yet "
                f"({send_result.outcome} {send_result.text})"
            )
    receipt = receipt_by_hash[signed_transaction.hash]
    if not receipt.succeeded or receipt.contract is None:
        raise FatalError(
            f"deployment {signed_transaction.hash}: the transaction was mined but reverted"
        )
    return receipt.contract, receipt
