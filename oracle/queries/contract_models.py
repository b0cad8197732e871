"""The answers of `contract show`, `contract deploy` and `contract calldata`."""

from pydantic import Field

from oracle.bindings import qos_roots
from oracle.bindings.codec import compute_code_hash
from oracle.bindings.deployment import OracleSetup
from oracle.bindings.qos_roots import RootsConfiguration, RootsHead
from oracle.domain.events.oracle_events import ContractKickLimits, RootsLimits
from oracle.queries.answers import AddressText, ApiModel, HashText, Integer


class ContractAnswer(ApiModel):
    """The oracle contract: its code, roles, rules, limits and newest round."""

    code_hash: HashText
    is_our_code: bool
    target: AddressText
    admin: AddressText
    pauser: AddressText
    vetoer: AddressText
    pending_vetoer: AddressText
    signers: list[AddressText]
    quorum: int
    config: HashText = Field(
        description=(
            "Digest of the chain, the contract, and its configuration (number, signers, quorum "
            "and rules) for which rounds are signed."
        )
    )
    rules_hash: HashText
    last_root: HashText = Field(
        description="Root of the last round; zero before the first round and after a strike."
    )
    kept_rounds: int = Field(description="Number of newest rounds whose roots the contract keeps.")
    lag_rounds: int = Field(
        description=(
            "Number of later rounds after which a root may be used for irreversible actions. "
            "Until then it may still be struck."
        )
    )
    head: RootsHead
    limits: RootsLimits
    floors: RootsLimits
    tightest: RootsLimits
    kick_limits: ContractKickLimits
    kick_floors: ContractKickLimits


class TimelockPlan(ApiModel):
    """The timelock contract, deployed before the oracle contract that it administers."""

    address: AddressText
    owner: AddressText
    delay: int = Field(description="Delay of the timelock, in seconds.")
    gas_limit: int


class AdapterPlan(ApiModel):
    """The adapter contract, deployed after the oracle contract that calls it."""

    name: str
    address: AddressText
    owner: AddressText
    contracts: dict[str, str] = Field(
        description="Addresses of contracts that it is deployed with, by name."
    )
    gas_limit: int


class WordsPlan(ApiModel):
    """The QoSWords contract, deployed after the oracle contract whose scores it stores."""

    address: AddressText
    fall_share: int = Field(
        description=(
            "Max share of the open lanes that may fall in a day by words of the last round, in "
            "1/10,000; four lanes may always fall."
        )
    )
    big_fall: int = Field(
        description=(
            "Decrease of a lane above which the lane counts as fallen, in steps of 0.0001 of QoS; "
            "a lane that closes always counts."
        )
    )
    max_rounds: int
    gas_limit: int


class DeploymentAnswer(ApiModel):
    """The contracts to deploy, and their maximum cost; amounts are in wei."""

    address: AddressText | None = Field(
        default=None, description="Address of the oracle contract; null if nothing was sent."
    )
    gas_used: int | None = None
    contract: str
    code_hash: HashText
    arguments: OracleSetup
    sender: AddressText
    gas_limit: int
    max_fee_per_gas_wei: Integer
    max_cost_wei: Integer = Field(description="Maximum total cost of all deployments, in wei.")
    balance_wei: Integer
    timelock: TimelockPlan | None
    adapter: AdapterPlan | None
    words_contract: WordsPlan | None = Field(
        default=None,
        description="Settings of the hot set contract QoSWords; null if it is not deployed.",
    )
    objections: AddressText | None = Field(
        default=None, description="Address of the objections contract; null if it is not deployed."
    )


class ContractCallAnswer(ApiModel):
    """A call by the contract's admin, pauser or vetoer; an admin may call through a timelock."""

    act: str
    sender: str
    to: AddressText
    calldata: str
    schedule: str | None = Field(
        default=None,
        description=(
            "Data of the call that schedules the change in the timelock; null if the contract "
            "has no timelock."
        ),
    )
    execute: str | None = Field(
        default=None,
        description=(
            "Data of the call that executes the change after the delay; null if the contract "
            "has no timelock."
        ),
    )
    operation: HashText | None = Field(
        default=None,
        description=(
            "Operation id of the scheduled change in the timelock, with which it can be "
            "cancelled; null if the contract has no timelock."
        ),
    )
    delay_seconds: int | None = None


class AnnouncementAnswer(ApiModel):
    """Rules that are ready to be announced, and the calls that announce and apply them."""

    rules_hash: HashText
    reason_hash: HashText = Field(
        description="The keccak256 of the reason, which is the salt of the timelock's operation."
    )
    folder: str
    files: list[str] = Field(description="Files in the folder, each named after its hash.")
    dry_run: bool
    call: ContractCallAnswer


def build_contract_answer(configuration: RootsConfiguration) -> ContractAnswer:
    """Build the answer of `contract show` for a QoSRoots contract."""
    contract_status = configuration.contract_status
    masked_code_hash = compute_code_hash(qos_roots.CONTRACT, configuration.code)
    return ContractAnswer(
        code_hash=masked_code_hash,
        is_our_code=masked_code_hash == compute_code_hash(qos_roots.CONTRACT),
        target=configuration.target,
        admin=configuration.admin,
        pauser=configuration.pauser,
        vetoer=configuration.vetoer,
        pending_vetoer=configuration.pending_vetoer,
        signers=list(configuration.signers),
        quorum=configuration.quorum,
        config=contract_status.config,
        rules_hash=contract_status.rules_hash,
        last_root=contract_status.last_root,
        kept_rounds=configuration.kept_rounds,
        lag_rounds=configuration.lag_rounds,
        head=contract_status.head,
        limits=contract_status.limits,
        floors=configuration.floors,
        tightest=configuration.tightest,
        kick_limits=configuration.kick_limits,
        kick_floors=configuration.kick_floors,
    )
