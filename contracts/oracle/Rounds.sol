// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./AsOfBlock.sol";
import {Lanes} from "./Lanes.sol";
import {Limits} from "./Limits.sol";
import {NodeScores} from "./NodeScores.sol";
import {SignerQuorum} from "./SignerQuorum.sol";

/// @title Rounds: scores of many nodes at once, and the indexes of newly scored nodes
/// @notice The data of a report, with all numbers big-endian: number of reused indexes (2 bytes), number of appended
/// indexes (2 bytes); for each reused index its new and its old address (40 bytes); each appended address (20 bytes);
/// then words to the end, 35 bytes each: the word's index (3 bytes, strictly ascending), 16 lanes (32 bytes).
abstract contract Rounds is NodeScores, SignerQuorum {
    /// @dev A signed report, and the bitmap of its signers.
    struct Statement {
        bytes32 dataHash;
        bytes32 digest;
        uint256 signedBy;
    }

    /// @dev Maximum number of indexes; so index + 1 fits in the 3 bytes of a node's slot.
    uint256 private constant MAX_NODES = (1 << 24) - 1;

    uint256 private constant COUNTS_BYTES = 4;
    uint256 private constant ADDRESS_BYTES = 20;

    /// @dev A word of a report: its index (3 bytes), the word (32 bytes).
    uint256 private constant RECORD_BYTES = 35;

    /// @dev Number of lanes that may fall in any round, however few are open.
    uint256 private constant ALWAYS_MAY_FALL = 4;

    bytes32 private constant REPORT = keccak256(
        "Report(bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,bytes32 dataHash)"
    );

    /// @notice The caller is not a plain account that sends the report directly: readers take nodes and words from the
    /// transaction's input. With delegated code (EIP-7702) the input could be that of an inner call.
    error NotDirect();
    /// @notice The report was signed under another configuration of signers and rules.
    error WrongConfig(uint16 expected, uint16 got);
    /// @notice The next round may be accepted from `turn` on, unix seconds.
    error TooSoon(uint256 turn);
    /// @notice The as-of block is not newer than the last report's, or not older than the current block.
    error StaleAsOf(uint256 asOf);
    /// @notice The as-of block is older than the anchor window.
    error AsOfTooOld(uint256 asOf);
    /// @notice The chain has another block at `asOf`, or does not return its hash (0).
    error Reorged(uint256 asOf, bytes32 expected, bytes32 found);
    /// @notice The data is truncated, has no word or more than maxWords, or assigns more than maxNewNodes indexes.
    error BadLength(uint256 length);
    /// @notice The address already has an index (perhaps of this report), or is zero.
    error AlreadyRegistered(address node);
    /// @notice The address has no index, its lane was not closed by an earlier round, or its kickout is pending.
    error NotReleasable(address node);
    /// @notice All indexes are assigned.
    error IndexSpaceFull();
    /// @notice The index is assigned in this report, which contains no score for it.
    error NoScore(uint256 index);
    /// @notice The index of the word is not greater than the one before it.
    error NotAscending(uint256 word);
    /// @notice The word writes a lane whose index is not assigned.
    error UnknownNode(uint256 word);
    /// @notice The word has a lane above 10002.
    error ScoreTooHigh(uint256 word);
    /// @notice The word sets a lane back to 0.
    error ScoreErased(uint256 word);
    /// @notice More lanes fall in this round than allowed; see Limits.fallShare.
    error TooManyFalls(uint256 fallen, uint256 most);

    /// @notice Returns the digest to sign for a report that follows the last round, under the current configuration.
    function reportDigest(uint32 round, uint48 asOf, bytes32 asOfHash, uint40 deadline, bytes32 dataHash)
        public
        view
        returns (bytes32)
    {
        bytes32 prev = _reportOf(_head.round);
        return _digestOf(
            keccak256(abi.encode(REPORT, configDigest, round, prev, asOf, asOfHash, deadline, dataHash))
        );
    }

    /// @notice Accepts the scores of a round. Any plain account may send it; a quorum must have signed it.
    /// @param round the last round + 1
    /// @param config counter of the current configuration
    /// @param asOf number of the block at which the scores were computed
    /// @param asOfHash its hash
    /// @param deadline unix seconds, at most MAX_TTL ahead; last block time that may include this
    /// @param data new nodes and words, see above
    /// @param signatures as many as the quorum, 65 bytes each: r, s, v
    function push(
        uint32 round,
        uint16 config,
        uint48 asOf,
        bytes32 asOfHash,
        uint40 deadline,
        bytes calldata data,
        bytes calldata signatures
    ) external {
        // solhint-disable-next-line avoid-tx-origin -- not for authorization: the input must be the transaction's
        if (msg.sender != tx.origin || msg.sender.code.length != 0) revert NotDirect();
        Head memory now_ = _head;
        Limits memory limits_ = _limits;
        _checkTurn(now_, round, config, limits_.minInterval);
        _checkDeadline(deadline);
        _checkAsOf(now_.asOf, asOf, asOfHash, limits_.anchorWindow);
        Statement memory said;
        said.dataHash = keccak256(data);
        said.digest = reportDigest(round, asOf, asOfHash, deadline, said.dataHash);
        said.signedBy = _checkSignatures(said.digest, now_.quorum, signatures);
        _takeIn(data, now_, limits_);
        now_.round = round;
        now_.asOf = uint40(asOf); // a past block: far below 2^40
        now_.pushedAt = uint40(block.timestamp);
        now_.heldSeconds = 0;
        _head = now_;
        _keepReport(round, said.digest);
        emit RoundAccepted(
            round, asOf, asOfHash, said.dataHash, said.digest, configDigest, said.signedBy, msg.sender
        );
    }

    function _checkTurn(Head memory now_, uint32 round, uint16 config, uint256 minInterval) private view {
        _checkRunning(now_.pausedUntil);
        if (round != now_.round + 1) revert WrongRound(now_.round + 1, round);
        if (config != now_.configCount) revert WrongConfig(now_.configCount, config);
        uint256 turn = now_.pushedAt + minInterval;
        if (block.timestamp < turn) revert TooSoon(turn);
    }

    /// @dev Every report passes this check: after its block has left the window it must be made anew.
    function _checkAsOf(uint256 last, uint256 asOf, bytes32 asOfHash, uint256 window) private view {
        uint256 current = AsOfBlock.current(ON_ARBITRUM);
        if (asOf <= last || asOf >= current) revert StaleAsOf(asOf);
        if (current - asOf > window) revert AsOfTooOld(asOf);
        bytes32 found = AsOfBlock.hashOf(asOf, ON_ARBITRUM);
        if (found == 0 || found != asOfHash) revert Reorged(asOf, asOfHash, found);
    }

    /// @dev Updates the counts of nodes and open lanes in `now_`, which the caller stores.
    function _takeIn(bytes calldata data, Head memory now_, Limits memory limits_) private {
        uint256 before = now_.nodeCount;
        uint256 position = _giveIndexes(data, now_, limits_.maxNewNodes);
        _checkWords(data, position, now_, limits_);
        for (uint256 index = before; index < now_.nodeCount; ++index) {
            if (laneAt(index) == 0) revert NoScore(index);
        }
    }

    // --- Indexes ---

    /// @dev The lane of a reused index needs no check afterwards: it is closed, and no lane goes back to 0.
    /// @return position offset of the first word
    function _giveIndexes(bytes calldata data, Head memory now_, uint256 most) private returns (uint256 position) {
        (uint256 reused, uint256 appended) = _counts(data);
        uint256 end = COUNTS_BYTES + (2 * reused + appended) * ADDRESS_BYTES;
        if (reused + appended > most || data.length < end) revert BadLength(data.length);
        for (position = COUNTS_BYTES; reused > 0; --reused) {
            address fresh = _addressAt(data, position);
            _give(_take(_addressAt(data, position + ADDRESS_BYTES)), fresh);
            position += 2 * ADDRESS_BYTES;
        }
        uint256 index = now_.nodeCount;
        if (index + appended > MAX_NODES) revert IndexSpaceFull();
        for (; appended > 0; --appended) {
            _give(index++, _addressAt(data, position));
            position += ADDRESS_BYTES;
        }
        now_.nodeCount = uint24(index);
    }

    /// @dev Reads the lane before this report's words are written, so only an earlier round can have closed it. An
    /// expulsion stays with the address; a proposal that can no longer be executed is removed.
    function _take(address old) private returns (uint256 index) {
        Node memory held = _nodes[old];
        if (held.indexPlusOne == 0) revert NotReleasable(old);
        index = held.indexPlusOne - 1;
        if (laneAt(index) != Lanes.DO_NOT_SELECT || _isLive(held)) revert NotReleasable(old);
        held.indexPlusOne = 0;
        if (held.kick == KickState.Pending) held.kick = KickState.None;
        _nodes[old] = held;
        emit NodeReleased(index, old);
    }

    function _give(uint256 index, address fresh) private {
        Node storage held = _nodes[fresh];
        if (fresh == address(0) || held.indexPlusOne != 0) revert AlreadyRegistered(fresh);
        held.indexPlusOne = uint24(index + 1);
        emit NodeRegistered(index, fresh);
    }

    function _counts(bytes calldata data) private pure returns (uint256 reused, uint256 appended) {
        if (data.length < COUNTS_BYTES) revert BadLength(data.length);
        return (uint16(bytes2(data[0:2])), uint16(bytes2(data[2:4])));
    }

    function _addressAt(bytes calldata data, uint256 position) private pure returns (address) {
        return address(bytes20(data[position:position + ADDRESS_BYTES]));
    }

    // --- Words ---

    /// @dev Indexes ascend: if the last word is within the assigned indexes, all words are.
    function _checkWords(bytes calldata data, uint256 position, Head memory now_, Limits memory limits_) private {
        uint256 length = data.length - position;
        if (length == 0 || length % RECORD_BYTES != 0 || length / RECORD_BYTES > limits_.maxWords) {
            revert BadLength(data.length);
        }
        (uint256 next, uint256 lanes, uint256 fallen, uint256 gained) =
            _writeWords(data[position:], Lanes.inEvery(limits_.bigFall));
        if (Lanes.anyBeyond(lanes, (next - 1) << 4, now_.nodeCount)) revert UnknownNode(next - 1);
        _checkFalls(Lanes.total(fallen), now_.openCount, limits_.fallShare);
        now_.openCount = uint24(now_.openCount + Lanes.total(gained) - 16 * (length / RECORD_BYTES));
    }

    /// @dev Reads without bounds checks: the caller has checked that all records are complete.
    /// @return next the last word's index, plus 1
    /// @return lanes the last word
    /// @return fallen number of lanes that fall, summed lane by lane
    /// @return gained number of lanes open after the round, plus those that were not open before it, in the same way
    function _writeWords(bytes calldata records, uint256 steps)
        private
        returns (uint256 next, uint256 lanes, uint256 fallen, uint256 gained)
    {
        uint256 position;
        uint256 end;
        assembly ("memory-safe") {
            position := records.offset
            end := add(position, records.length)
        }
        unchecked {
            for (; position < end; position += RECORD_BYTES) {
                uint256 word;
                assembly ("memory-safe") {
                    word := shr(232, calldataload(position))
                    lanes := calldataload(add(position, 3))
                }
                if (word < next) revert NotAscending(word);
                next = word + 1;
                if (Lanes.anyTooHigh(lanes)) revert ScoreTooHigh(word);
                uint256 previous = _words[word];
                if (Lanes.anyErased(previous, lanes)) revert ScoreErased(word);
                fallen += Lanes.falls(previous, lanes, steps) >> Lanes.TOP_BIT;
                gained += (Lanes.open(lanes) >> Lanes.TOP_BIT) + (Lanes.shut(previous) >> Lanes.TOP_BIT);
                _words[word] = lanes;
            }
        }
    }

    /// @dev Compares with the lanes open before the round, so that a report cannot raise its own limit.
    function _checkFalls(uint256 fallen, uint256 openCount, uint256 share) private pure {
        uint256 most = openCount * share / 10_000;
        if (most < ALWAYS_MAY_FALL) most = ALWAYS_MAY_FALL;
        if (fallen > most) revert TooManyFalls(fallen, most);
    }
}
