// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Hashes} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {IQoSOracle} from "../IQoSOracle.sol";
import {Lanes} from "./core/Lanes.sol";
import {IQoSRoots} from "./IQoSRoots.sol";
import {PackedLanes} from "./PackedLanes.sol";
import {NodeLeaf, QoSProof} from "./QoSProof.sol";

/// @title Scores that consumers read without a proof: the lanes of all seats, sixteen per storage slot
/// @notice Optional, and without any role. Anyone writes lanes here, by a proof against a root of the oracle: a keeper,
/// a node or a consumer. A consumer names this address and reads it as an IQoSOracle, whose indexes are seats here.
/// @dev Words are taken from two rounds. Words of the last round are accepted at once, as long as no more lanes fall in
/// a day than a share of those that were open a day ago. So a stolen quorum cannot shut out the network in one
/// transaction, and invented nodes do not raise the share in time. Days are those of UTC, so two shares may fall around
/// midnight. Words of the round LAG rounds ago are accepted without a limit, because its root could have been struck
/// since.
contract QoSWords is IQoSOracle {
    /// @notice One storage slot: what limits the falls of a day (UTC).
    /// @param day days since 1970 of the last written word
    /// @param open number of lanes of 2 and more
    /// @param openAtDayStart value of `open` when this day began
    /// @param openDayBefore value of `open` when the day before began, so at least 24 hours ago
    /// @param falls number of lanes that fell in this day by words of the last round
    struct Counts {
        uint32 day;
        uint32 open;
        uint32 openAtDayStart;
        uint32 openDayBefore;
        uint32 falls;
    }

    /// @notice Words were written.
    /// @param first index of the first word of the run
    /// @param count number of words of the run
    /// @param round the round of the words
    /// @param written number of written words; the other words were empty, already stored from this or a newer round, or
    /// would have exceeded the limit on falls
    event WordsBrought(uint256 indexed first, uint256 count, uint32 round, uint256 written);

    /// @notice The oracle has no LAG or KEPT that this contract can use, or a share or step is above 10000, or
    /// `maxRounds` is not more than LAG.
    error BadSettings();
    /// @notice Words are taken from the last round and from the one LAG rounds before it.
    error WrongRound(uint32 round, uint32 lastRound);
    /// @notice A run has 2^k words, at most MAX_RUN, and begins at a multiple of its length.
    error BadRun(uint256 first, uint256 count);
    /// @notice The words are not in the round's tree.
    error WordsNotProven(uint256 first, uint32 round);
    /// @notice A lane of this word is greater than 10002.
    error LaneTooHigh(uint256 index);
    /// @notice No word was written; see WordsBrought.
    error NothingWritten(uint256 first, uint32 round);
    /// @notice This address is bound to no seat.
    error NotRegistered(address node);

    /// @notice Weight of a node without a score: the same as for a QoS of 0.5, so that it gets work.
    uint256 public constant NEWCOMER = QoSProof.NEWCOMER;

    /// @notice Number of lanes that may fall in a day, however few are open.
    uint256 public constant ALWAYS_MAY_FALL = 4;

    /// @notice Maximum number of words in a run; a sum of lanes is exact up to 4095 words.
    uint256 public constant MAX_RUN = 2_048;

    /// @dev A lane that was never written counts as that of a newcomer: that is its weight.
    uint256 private constant NEWCOMER_LANE = NEWCOMER + 1;

    /// @notice The oracle whose roots prove words.
    IQoSRoots public immutable ORACLE;

    /// @notice The oracle's LAG, rounds.
    uint32 public immutable LAG;

    /// @notice Share of the open lanes that may fall in a day by words of the last round, 1/10000.
    uint256 public immutable FALL_SHARE;

    /// @notice A lane also falls if its QoS drops by more than this, 1/10000.
    uint256 public immutable BIG_FALL;

    /// @notice A word that is more rounds older than the last round is stale.
    uint32 public immutable MAX_ROUNDS;

    mapping(uint256 index => uint256 slot) private _words;
    mapping(address node => uint256) private _seatPlusOne;
    Counts private _counts;

    /// @param oracle the oracle whose roots prove words
    /// @param fallShare see FALL_SHARE, 0 to 10000
    /// @param bigFall see BIG_FALL, 0 to 10000; 10000 = only lanes that are closed fall
    /// @param maxRounds see MAX_ROUNDS, more than the oracle's LAG
    constructor(IQoSRoots oracle, uint256 fallShare, uint256 bigFall, uint32 maxRounds) {
        uint32 lag = oracle.LAG();
        if (lag >= oracle.KEPT() || fallShare > 10_000 || bigFall > 10_000 || maxRounds <= lag) revert BadSettings();
        (ORACLE, LAG, FALL_SHARE, BIG_FALL, MAX_ROUNDS) = (oracle, lag, fallShare, bigFall, maxRounds);
    }

    // --- writing ---

    /// @notice Writes an aligned run of words. Anyone may call it. Words that are not newer than what is stored, and
    /// words of the last round that would exceed the limit on falls, are left out, so that no one else's transaction
    /// can make this one fail.
    /// @param round the last round, or the round LAG rounds before it
    /// @param first index of the first word: seats 16 * first and following
    /// @param words the lanes as in the round's tree, 16 bits each; an empty place of the tree is 0
    /// @param proof the sibling hashes on the path from the run's own root to the round's root
    function bring(uint32 round, uint256 first, uint256[] calldata words, bytes32[] calldata proof) external {
        bool limited = _isLimited(round);
        _requireWords(round, first, words, proof);
        Counts memory counts = _countsToday();
        uint256 allowed = _allowedFalls(counts);
        uint256 steps = Lanes.inEvery(BIG_FALL);
        uint256 falls = counts.falls;
        uint256 written;
        uint256 opened;
        uint256 closed;
        // Indexes and sums are far below 2^256: the tree has at most 2^28 words, and a run MAX_RUN.
        unchecked {
            for (uint256 i; i < words.length; ++i) {
                uint256 word = words[i];
                if (word == 0) continue;
                if (Lanes.anyTooHigh(word)) revert LaneTooHigh(first + i);
                uint256 stored = _words[first + i];
                if (PackedLanes.roundOf(stored) >= round) continue;
                uint256 slot = PackedLanes.pack(word, round);
                if (!PackedLanes.sameLanes(slot, stored)) {
                    uint256 previous = PackedLanes.unpack(stored);
                    if (limited) {
                        uint256 fallsAfter = falls + _fallsOf(previous, word, steps);
                        if (fallsAfter > allowed) continue;
                        falls = fallsAfter;
                    }
                    opened += Lanes.open(word) >> Lanes.TOP_BIT;
                    closed += Lanes.open(previous) >> Lanes.TOP_BIT;
                }
                _words[first + i] = slot;
                ++written;
            }
        }
        if (written == 0) revert NothingWritten(first, round);
        counts.open = uint32(counts.open + Lanes.total(opened) - Lanes.total(closed));
        counts.falls = uint32(falls);
        _counts = counts;
        emit WordsBrought(first, words.length, round, written);
    }

    /// @notice Binds nodes to their seats, by their leaves in the round LAG rounds before the last one. Anyone may call
    /// it, once for each node. A node keeps its seat for ever, so nothing is gained by another call, except after the
    /// quorum was stolen and the rounds were not struck in time: a later leaf then corrects the seat.
    function bind(NodeLeaf[] calldata leaves, bytes32[][] calldata proofs) external {
        (uint32 lastRound,,) = ORACLE.last();
        bytes32 root = ORACLE.rootOf(lastRound < LAG ? 0 : lastRound - LAG);
        for (uint256 i; i < leaves.length; ++i) {
            QoSProof.requireLeaf(root, leaves[i], proofs[i]);
            uint256 seat = QoSProof.seatOf(leaves[i]);
            _seatPlusOne[leaves[i].node] = seat + 1;
            emit NodeRegistered(seat, leaves[i].node);
        }
    }

    // --- reading, as an IQoSOracle ---

    /// @inheritdoc IQoSOracle
    /// @dev A word that is more than MAX_ROUNDS old is stale; see weightWithin for another age or weight.
    function weightOf(address node) external view returns (uint256 weight) {
        return weightWithin(node, MAX_ROUNDS, NEWCOMER);
    }

    /// @notice Returns the weight of a node, as weightOf, for a consumer that decides itself what is stale.
    /// @param maxRounds a word that is more rounds older than the last round is stale
    /// @param staleWeight returned for a stale word, and for all while the oracle is not fresh. With 0 nodes keep their
    /// words fresh themselves; with NEWCOMER a bad node gains if its word becomes stale
    function weightWithin(address node, uint32 maxRounds, uint256 staleWeight) public view returns (uint256 weight) {
        if (ORACLE.isExpelled(node)) return 0;
        (uint256 lane, uint32 round) = _laneAndRound(node);
        if (lane == 0) return NEWCOMER;
        return _isFresh(round, maxRounds) ? lane - Lanes.DO_NOT_SELECT : staleWeight;
    }

    /// @inheritdoc IQoSOracle
    /// @dev `known`: the node is bound to a seat and its word was written. `round`: the round of this word, 0 if there
    /// is none. `age`: seconds since the oracle's last round.
    function scoreOf(address node)
        external
        view
        returns (bool known, bool selectable, uint16 qos, uint32 round, uint40 age)
    {
        (,, uint40 pushedAt) = ORACLE.last();
        age = uint40(block.timestamp) - pushedAt;
        uint256 lane;
        (lane, round) = _laneAndRound(node);
        known = lane != 0;
        bool expelled = ORACLE.isExpelled(node);
        selectable = !expelled && (lane != Lanes.DO_NOT_SELECT || !_isFresh(round, MAX_ROUNDS));
        if (!expelled && lane > Lanes.ZERO_QOS) qos = uint16(lane - Lanes.ZERO_QOS);
    }

    /// @inheritdoc IQoSOracle
    function isSelectable(address node) external view returns (bool) {
        if (ORACLE.isExpelled(node)) return false;
        (uint256 lane, uint32 round) = _laneAndRound(node);
        return lane != Lanes.DO_NOT_SELECT || !_isFresh(round, MAX_ROUNDS);
    }

    /// @inheritdoc IQoSOracle
    function isExpelled(address node) external view returns (bool) {
        return ORACLE.isExpelled(node);
    }

    /// @inheritdoc IQoSOracle
    function isFresh() external view returns (bool) {
        return ORACLE.isFresh();
    }

    /// @inheritdoc IQoSOracle
    function wordsAt(uint256 from, uint256 count) external view returns (uint256[] memory words) {
        words = new uint256[](count);
        for (uint256 i; i < count; ++i) {
            words[i] = PackedLanes.unpack(_words[from + i]);
        }
    }

    /// @inheritdoc IQoSOracle
    function laneAt(uint256 index) public view returns (uint16 lane) {
        return Lanes.laneOf(PackedLanes.unpack(_words[index >> 4]), index);
    }

    /// @inheritdoc IQoSOracle
    function indexOf(address node) external view returns (uint256 index) {
        uint256 seatPlusOne = _seatPlusOne[node];
        if (seatPlusOne == 0) revert NotRegistered(node);
        return seatPlusOne - 1;
    }

    // --- reading, for callers of bring ---

    /// @notice Returns the rounds of words, 0 = never written.
    /// @param from index of the first word
    /// @param count number of words
    function roundsAt(uint256 from, uint256 count) external view returns (uint32[] memory rounds) {
        rounds = new uint32[](count);
        for (uint256 i; i < count; ++i) {
            rounds[i] = PackedLanes.roundOf(_words[from + i]);
        }
    }

    /// @notice Returns the number of lanes that fell today by words of the last round, and the maximum for today.
    function fallsToday() external view returns (uint256 falls, uint256 allowed) {
        Counts memory counts = _countsToday();
        return (counts.falls, _allowedFalls(counts));
    }

    /// @notice Returns the number of lanes of 2 and more.
    function openCount() external view returns (uint256) {
        return _counts.open;
    }

    // --- internals ---

    /// @dev Returns whether the daily limit on falls applies to words of this round: true for the last round, false
    /// for the round LAG rounds before it. Reverts for any other round.
    function _isLimited(uint32 round) private view returns (bool) {
        (uint32 lastRound,,) = ORACLE.last();
        if (uint256(round) + LAG == lastRound) return false;
        if (round != lastRound) revert WrongRound(round, lastRound);
        return true;
    }

    /// @dev Hashes the run up to its own root, and verifies this root's proof.
    function _requireWords(uint32 round, uint256 first, uint256[] calldata words, bytes32[] calldata proof)
        private
        view
    {
        uint256 count = words.length;
        if (count == 0 || count > MAX_RUN || count & (count - 1) != 0 || first % count != 0) {
            revert BadRun(first, count);
        }
        bytes32[] memory hashes = new bytes32[](count);
        unchecked {
            for (uint256 i; i < count; ++i) {
                uint256 word = words[i];
                if (word != 0) hashes[i] = QoSProof.hashWord(first + i, word);
            }
            for (uint256 width = count >> 1; width != 0; width >>= 1) {
                for (uint256 i; i < width; ++i) {
                    hashes[i] = Hashes.commutativeKeccak256(hashes[2 * i], hashes[2 * i + 1]);
                }
            }
        }
        if (!MerkleProof.verifyCalldata(proof, ORACLE.rootOf(round), hashes[0])) revert WordsNotProven(first, round);
    }

    /// @dev Returns the counts, updated to the current day.
    function _countsToday() private view returns (Counts memory counts) {
        counts = _counts;
        uint32 day = uint32(block.timestamp / 1 days);
        if (counts.day == day) return counts;
        // Without a write in the day before, the lanes were the same at its start.
        counts.openDayBefore = counts.day + 1 == day ? counts.openAtDayStart : counts.open;
        counts.openAtDayStart = counts.open;
        (counts.day, counts.falls) = (day, 0);
    }

    function _allowedFalls(Counts memory counts) private view returns (uint256 allowed) {
        allowed = counts.openDayBefore * FALL_SHARE / 10_000;
        if (allowed < ALWAYS_MAY_FALL) allowed = ALWAYS_MAY_FALL;
    }

    /// @dev Returns the number of lanes that are closed, or drop by more than the step.
    function _fallsOf(uint256 previous, uint256 word, uint256 steps) private pure returns (uint256) {
        uint256 before = PackedLanes.fill(previous, NEWCOMER_LANE);
        uint256 after_ = PackedLanes.fill(word, NEWCOMER_LANE);
        return Lanes.total(Lanes.falls(before, after_, steps) >> Lanes.TOP_BIT);
    }

    /// @dev Returns 0 as lane for an address that is bound to no seat, or whose word was never written.
    function _laneAndRound(address node) private view returns (uint256 lane, uint32 round) {
        uint256 seatPlusOne = _seatPlusOne[node];
        if (seatPlusOne == 0) return (0, 0);
        uint256 seat = seatPlusOne - 1;
        uint256 slot = _words[seat >> 4];
        return ((slot >> (14 * (seat & 15))) & 0x3fff, PackedLanes.roundOf(slot));
    }

    function _isFresh(uint32 round, uint32 maxRounds) private view returns (bool) {
        (uint32 lastRound,,) = ORACLE.last();
        return lastRound <= uint256(round) + maxRounds && ORACLE.isFresh();
    }
}
