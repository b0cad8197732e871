"""Recomputes an accepted round from the stored logs alone, and compares it with the accepted data.

No folded state is used, only raw logs, the rules, and the chain's as-of block.
"""

from collections.abc import Callable

from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.lanes import LANES_PER_WORD, unpack_lanes
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.round_data import decode_records
from oracle.errors import InputError, TransientError
from oracle.queries.answers import LogPlace, load_event_sources
from oracle.queries.explain import EventArchive
from oracle.queries.leaf_comparison import describe_difference, find_first_difference
from oracle.queries.leaf_models import LeafDifference
from oracle.queries.report_models import (
    LaneDifference,
    RoundVerification,
    build_round_entry,
)
from oracle.queries.round_leaves import (
    LeafCache,
    find_accepted_report,
    load_piece,
    load_pieced_round,
)
from oracle.reporting.recompute import ReportWithLeaves, recompute_leaves
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.store.database import Store


def verify_round(
    round_number: int,
    chain: ChainReader,
    archive: EventArchive,
    settings: ReportSettings,
    domain: Domain,
    matches_contract: Callable[[RoundAccepted], bool | None],
) -> RoundVerification:
    """Recompute a round and compare it with the accepted data.

    `domain` is the domain for which statements are signed. `matches_contract` returns whether the
    contract holds exactly the round's words, or None if a newer round was accepted since.

    Raises:
        InputError: the index has no such accepted round.
        TransientError: the chain does not serve the as-of block.
    """
    accepted, previous_digest, place = _load_accepted_round(archive.store, round_number)
    as_of = _fetch_block(chain, accepted.as_of)
    recomputed = recompute_leaves(archive.store, archive.reader, archive.rules, settings, as_of)
    computed = recomputed.report
    accepted_root, leaf_difference = compare_roots(archive.store, accepted, recomputed)
    has_same_root = None if accepted_root is None else computed.root == accepted_root
    statement = ReportStatement(
        config=accepted.config,
        round=round_number,
        prev=previous_digest,
        as_of=as_of.number,
        as_of_hash=as_of.hash,
        deadline=computed.deadline,
        blob=computed.data,
    )
    has_same_block = as_of.hash == accepted.as_of_hash
    has_same_digest = statement.compute_digest(domain) == accepted.digest
    has_same_registrations = computed.registrations == accepted.registrations
    differences = _find_differences(dict(accepted.words), dict(decode_records(computed.records)))
    contract_agrees = matches_contract(accepted)
    is_same = has_same_block and has_same_digest and not differences
    return RoundVerification(
        **dict(build_round_entry(accepted, place)),
        same=is_same and contract_agrees is not False and has_same_root is not False,
        same_block=has_same_block,
        same_digest=has_same_digest,
        same_registrations=has_same_registrations,
        expected_registrations=None
        if has_same_registrations
        else list(computed.registrations.new_nodes),
        contract_holds_it=contract_agrees,
        differences=differences,
        root=computed.root,
        same_root=has_same_root,
        leaf_difference=leaf_difference,
    )


def compare_roots(
    store: Store, accepted: RoundAccepted, recomputed: ReportWithLeaves
) -> tuple[Hash | None, LeafDifference | None]:
    """Return the root of an accepted round, and its first leaf that was not recomputed.

    The root is None if it is not known. The leaf is None if none differs, or if the leaves of the
    round are not stored any more.
    """
    cache = LeafCache()
    with store.read_transaction() as uow:
        report = find_accepted_report(uow, accepted)
        if report is None:
            return None, None
        pieced_round = load_pieced_round(uow, cache, report)
        if report.root == recomputed.report.root or pieced_round is None:
            return report.root, None
        for piece in range(max(len(pieced_round.digests), len(recomputed.pieces))):
            is_stored = piece < len(pieced_round.digests)
            tree = load_piece(uow, cache, pieced_round, piece) if is_stored else None
            computed_leaves = recomputed.pieces[piece] if piece < len(recomputed.pieces) else b""
            difference = find_first_difference(
                piece, computed_leaves, b"" if tree is None else tree.leaves
            )
            if difference is not None:
                return report.root, describe_difference(difference)
    return report.root, None


def _load_accepted_round(store: Store, round_number: int) -> tuple[RoundAccepted, Hash, LogPlace]:
    """Return the round, the digest of the previous round, and the source of the round's event."""
    with store.read_transaction() as uow:
        accepted = uow.rounds.get_accepted_round(round_number)
        previous = uow.rounds.get_accepted_round(round_number - 1)
        place_by_position = load_event_sources(uow, [] if accepted is None else [accepted.at])
    if accepted is None:
        raise InputError(f"round {round_number} was not accepted in the indexed blocks")
    if previous is None and round_number > 1:
        raise InputError(f"the previous round {round_number - 1} is not in the indexed blocks")
    return (
        accepted,
        ZERO_HASH if previous is None else previous.digest,
        place_by_position[accepted.at],
    )


def _fetch_block(chain: ChainReader, block_number: int) -> BlockRef:
    block = chain.fetch_header(block_number)
    if block is None:
        raise TransientError(f"no endpoint returned block {block_number}")
    return block


def _find_differences(
    accepted_words: dict[int, int], computed_words: dict[int, int]
) -> list[LaneDifference]:
    return [
        LaneDifference(
            index=word * LANES_PER_WORD + position, accepted=accepted_lane, computed=computed_lane
        )
        for word in sorted(accepted_words.keys() | computed_words.keys())
        for position, (accepted_lane, computed_lane) in enumerate(
            zip(
                _split_word(accepted_words.get(word)),
                _split_word(computed_words.get(word)),
                strict=True,
            )
        )
        if accepted_lane != computed_lane
    ]


def _split_word(word: int | None) -> tuple[int | None, ...]:
    return (None,) * LANES_PER_WORD if word is None else unpack_lanes(word)
