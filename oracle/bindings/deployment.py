"""Deploys contracts: plans the address, code and cost first, then sends the deployment."""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace

from eth_utils.crypto import keccak

from oracle.bindings.codec import build_creation_code
from oracle.bindings.contract_errors import CONTRACT, decode_refusal
from oracle.bindings.qos_oracle import ContractLimits
from oracle.bindings.qos_roots import FOR_EVER, ContractKickLimits
from oracle.chain.proofs.rlp import encode_rlp
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.errors import FatalError, InputError, TransientError
from oracle.rpc.fanout import PoolView, expect_response_format, parse_quantity
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RevertError
from oracle.signing.signer import Fees, Signer, TransactionRequest
from oracle.txmgr.client.fee_quote import add_gas_margin
from oracle.txmgr.client.receipts import Receipt, fetch_balance, fetch_mined_count, fetch_receipts
from oracle.txmgr.client.send_raw import send_raw_transaction

# Limits for a network of some thousand nodes and a period of a minute
# (docs/explanation/kickouts.md#limits-in-the-contract).
DEFAULT_LIMITS = ContractLimits(
    max_words=1024,
    max_new_nodes=200,
    min_interval=30,
    anchor_window=200,
    max_age_seconds=7200,
    kick_below=2000,
    veto_delay=3600,
    kick_rounds=3,
    kick_window=86_400,
    max_kicks_per_round=20,
    min_open=3,
    fall_share=1000,
    big_fall=2500,
)
# Limits that the admin can never exceed, even after the timelock's delay
# (docs/explanation/kickouts.md#limits-in-the-contract).
DEFAULT_FLOORS = ContractLimits(
    max_words=4095,
    max_new_nodes=1000,
    min_interval=0,
    anchor_window=8191,
    max_age_seconds=86_400,
    kick_below=2000,
    veto_delay=3600,
    kick_rounds=2,
    kick_window=7 * 86_400,
    max_kicks_per_round=20,
    min_open=3,
    fall_share=1000,
    big_fall=2500,
)
# Only for tests and demonstrations: these floors allow any limit.
NO_FLOORS = ContractLimits(
    max_words=4095,
    max_new_nodes=2**16 - 1,
    min_interval=0,
    anchor_window=8191,
    max_age_seconds=30 * 86_400,
    kick_below=10_000,
    veto_delay=0,
    kick_rounds=0,
    kick_window=2**24 - 1,
    max_kicks_per_round=255,
    min_open=0,
    fall_share=10_000,
    big_fall=10_000,
)
DEFAULT_KICK_LIMITS = ContractKickLimits(
    kick_gas=600_000,
    kick_cooldown=FOR_EVER,
    bucket_most=3,
    bucket_per_frame=1,
    bucket_frame=3600,
)


@dataclass(frozen=True, slots=True)
class OracleSetup:
    """The struct `Setup` of the constructor; if `target` is zero, kickouts call no contract."""

    admin: Address
    signers: tuple[Address, ...]
    rules_hash: Hash
    target: Address = ZERO_ADDRESS
    quorum: int = 1
    pauser: Address = ZERO_ADDRESS
    vetoer: Address = ZERO_ADDRESS
    limits: ContractLimits = field(default=DEFAULT_LIMITS)
    floors: ContractLimits = field(default=DEFAULT_FLOORS)
    kick_limits: ContractKickLimits = field(default=DEFAULT_KICK_LIMITS)
    expelled: tuple[Address, ...] = ()
    arbitrum: bool = False

    @property
    def creation_code(self) -> str:
        """Return the creation code, including the constructor arguments."""
        return build_creation_code(CONTRACT, self.struct_fields)

    @property
    def struct_fields(self) -> tuple[object, ...]:
        """Return the fields in the order of the contract's struct."""
        return (
            *(self.admin, self.pauser, self.vetoer, self.target, self.signers, self.quorum),
            *(bytes.fromhex(self.rules_hash[2:]), astuple(self.limits), astuple(self.floors)),
            *(astuple(self.kick_limits), self.expelled, self.arbitrum),
        )


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """The transaction of a planned deployment; `balance` is the sender's balance in wei."""

    code: str
    sender: Address
    code_hash: Hash
    gas_limit: int
    fees: Fees
    balance: int

    @property
    def max_cost(self) -> int:
        return self.gas_limit * self.fees.max_fee


def override_limits(limits: ContractLimits, overrides: Mapping[str, int]) -> ContractLimits:
    """Return the limits, with the overrides in place of the limits of the same name.

    Raises:
        InputError: an override has a name that no limit has.
    """
    limit_names = {limit_field.name for limit_field in fields(ContractLimits)}
    for name in overrides:
        if name not in limit_names:
            raise InputError(
                f"unknown limit {name}; expected one of: {', '.join(sorted(limit_names))}"
            )
    return replace(limits, **overrides)


def plan_deployment(
    pool_view: PoolView, code: str, sender: Address, fees: Fees | None
) -> DeploymentPlan:
    """Simulate the deployment of this creation code on the newest block; send nothing.

    Raises:
        InputError: the constructor rejects the setup, or the gas price is above the configured
            cap.
        TransientError: no endpoint responds.
    """
    if fees is None:
        raise InputError(
            "limits.max_fee_per_gas_wei: the gas price of the chain is above this limit"
        )
    try:
        gas_hex = pool_view.request("eth_estimateGas", {"from": sender, "data": code})
    except RevertError as error:
        reason = decode_refusal(error.data) if error.data else error.message
        raise InputError(f"the contract's constructor rejects the arguments: {reason}") from None
    with expect_response_format("an estimate of gas"):
        estimate = parse_quantity(gas_hex)
    return DeploymentPlan(
        code=code,
        sender=sender,
        code_hash=Hash("0x" + keccak(bytes.fromhex(code[2:])).hex()),
        gas_limit=add_gas_margin(estimate),
        fees=fees,
        balance=fetch_balance(pool_view, sender),
    )


def compute_contract_address(sender: Address, nonce: int) -> Address:
    """Return the address of the contract that an account creates with this nonce."""
    encoded_sender_and_nonce = encode_rlp([bytes.fromhex(sender[2:]), nonce])
    return Address("0x" + keccak(encoded_sender_and_nonce)[-20:].hex())


def check_funds(*plans: DeploymentPlan) -> None:
    """Raise InputError if the deploying account cannot pay for all plans."""
    cost, balance = sum(plan.max_cost for plan in plans), min(plan.balance for plan in plans)
    if balance < cost:
        raise InputError(
            f"{plans[0].sender}: the balance of {balance} wei is too low; the deployment may cost "
            f"up to {cost} wei"
        )


def send_deployment(
    pool: EndpointPool,
    signer: Signer,
    plan: DeploymentPlan,
    chain_id: int,
    wait_for_next_try: Callable[[], bool],
) -> tuple[Address, Receipt]:
    """Send the deployment and wait for its receipt; `wait_for_next_try` returns False to stop.

    Raises:
        InputError: the account cannot pay for the deployment.
        FatalError: the transaction was mined and failed.
        TransientError: the transaction is not mined yet; the message has its hash.
    """
    check_funds(plan)
    pool_view = pool.create_view()
    nonce = fetch_mined_count(pool_view, plan.sender, "pending")
    code, gas_limit_value, fees = plan.code, plan.gas_limit, plan.fees
    signed = signer.sign_transaction(
        TransactionRequest(chain_id, nonce, None, code, gas_limit_value, fees)
    )
    send_result = send_raw_transaction(pool, signed.raw)
    while not (receipt_by_hash := fetch_receipts(pool_view, [signed.hash])):
        if not wait_for_next_try():
            raise TransientError(
                f"deployment {signed.hash}: the transaction is not mined yet "
                f"({send_result.outcome} {send_result.text})"
            )
    receipt = receipt_by_hash[signed.hash]
    if not receipt.succeeded or receipt.contract is None:
        raise FatalError(f"deployment {signed.hash}: the transaction was mined and failed")
    return receipt.contract, receipt
