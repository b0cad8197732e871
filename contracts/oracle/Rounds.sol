// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./AsOfBlock.sol";
import {Lanes} from "./Lanes.sol";
import {Limits} from "./Limits.sol";
import {NodeScores} from "./NodeScores.sol";
import {SignerQuorum} from "./SignerQuorum.sol";

/// @title Rounds: scores of many nodes at once, and the indexes of those that are scored for the first time
/// @notice The data of a report, with all numbers big-endian: how many indexes are reused (2 bytes), how many are
/// appended (2 bytes); for each reused one the address that takes it and the one that has it (40 bytes); each appended
/// address (20 bytes); then words to the end, 35 bytes each: the word's index (3 bytes, strictly rising), 16 lanes
/// (32 bytes).
abstract contract Rounds is NodeScores, SignerQuorum {
    /// @dev What was signed, and the bitmap of who signed it.
    struct Statement {
        bytes32 dataHash;
        bytes32 digest;
        uint256 signedBy;
    }

    /// @dev Most indexes; so index + 1 fits in the 3 bytes that a node's slot has for it.
    uint256 private constant MAX_NODES = (1 << 24) - 1;

    uint256 private constant COUNTS_BYTES = 4;
    uint256 private constant ADDRESS_BYTES = 20;

    /// @dev A word of a report: its index (3 bytes), the word (32 bytes).
    uint256 private constant RECORD_BYTES = 35;

    /// @dev So many lanes may fall in any round, however few are open.
    uint256 private constant ALWAYS_MAY_FALL = 4;

    bytes32 private constant REPORT = keccak256(
        "Report(bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,bytes32 dataHash)"
    );

    /// @notice Reports are sent by a plain account, directly: readers take nodes and words from the transaction's
    /// input. An account that has delegated to code (EIP-7702) is not plain: its input could be that of an inner call.
    error NotDirect();
    /// @notice The report was made under another configuration of signers and rules.
    error WrongConfig(uint16 expected, uint16 got);
    /// @notice The next round begins at `turn`, unix seconds.
    error TooSoon(uint256 turn);
    /// @notice The as-of block is not newer than the last report's, or not older than this block.
    error StaleAsOf(uint256 asOf);
    /// @notice The as-of block is farther back than the anchor window.
    error AsOfTooOld(uint256 asOf);
    /// @notice The chain has another block at `asOf`, or cannot tell (0).
    error Reorged(uint256 asOf, bytes32 expected, bytes32 found);
    /// @notice The data is not whole, has no word or more than maxWords, or gives more than maxNewNodes indexes.
    error BadLength(uint256 length);
    /// @notice The address has an index (of this report, it may be), or is zero.
    error AlreadyRegistered(address node);
    /// @notice The address has no index to give up, its lane was not closed by an earlier round, or it may yet be
    /// kicked out.
    error NotReleasable(address node);
    /// @notice Every index is given.
    error IndexSpaceFull();
    /// @notice The index is given in this report, which says nothing about its lane.
    error NoScore(uint256 index);
    /// @notice Word indexes must rise from record to record.
    error NotAscending(uint256 word);
    /// @notice The word writes a lane whose index is not given.
    error UnknownNode(uint256 word);
    /// @notice The word has a lane above 10002.
    error ScoreTooHigh(uint256 word);
    /// @notice The word sets a lane back to 0.
    error ScoreErased(uint256 word);
    /// @notice More lanes fall at once than may; see Limits.fallShare.
    error TooManyFalls(uint256 fallen, uint256 most);

    /// @notice What signers sign to report a round on top of the last one, under the configuration in force.
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

    /// @notice Accepts the scores of one round. Any plain account may send it; a quorum has signed it.
    /// @param round the last round + 1
    /// @param config counter of the configuration in force
    /// @param asOf number of the block whose state the scores tell
    /// @param asOfHash its hash
    /// @param deadline unix seconds, at most MAX_TTL ahead; the latest block that may include this
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
        // solhint-disable-next-line avoid-tx-origin -- not to tell who it is, but that the input is the transaction's
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
        now_.asOf = uint40(asOf); // a block that is over: far below 2^40
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

    /// @dev There is no way around this check: a report whose block has left the window is made anew.
    function _checkAsOf(uint256 last, uint256 asOf, bytes32 asOfHash, uint256 window) private view {
        uint256 current = AsOfBlock.current(ON_ARBITRUM);
        if (asOf <= last || asOf >= current) revert StaleAsOf(asOf);
        if (current - asOf > window) revert AsOfTooOld(asOf);
        bytes32 found = AsOfBlock.hashOf(asOf, ON_ARBITRUM);
        if (found == 0 || found != asOfHash) revert Reorged(asOf, asOfHash, found);
    }

    /// @dev Counts new nodes and open lanes in `now_`, which the caller stores.
    function _takeIn(bytes calldata data, Head memory now_, Limits memory limits_) private {
        uint256 before = now_.nodeCount;
        uint256 position = _giveIndexes(data, now_, limits_.maxNewNodes);
        _checkWords(data, position, now_, limits_);
        for (uint256 index = before; index < now_.nodeCount; ++index) {
            if (laneAt(index) == 0) revert NoScore(index);
        }
    }

    // --- Indexes ---

    /// @dev A reused index needs no check of its lane afterwards: it is closed, and no lane goes back to 0.
    /// @return position where the words begin
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

    /// @dev The lane is read before this report's words are written: only an earlier round can have closed it. An
    /// expulsion stays with the address; a proposal that can no longer be executed goes.
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

    /// @dev Indexes rise: if the last word is not beyond the given ones, none is.
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

    /// @dev Reads without bounds checks: whole records.
    /// @return next the last word's index, and one
    /// @return lanes the last word
    /// @return fallen how many lanes fall, added up lane by lane
    /// @return gained how many are open after the round, and how many were not before it, in the same way
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

    /// @dev Counted against the lanes open before the round, so that a report cannot make room for itself.
    function _checkFalls(uint256 fallen, uint256 openCount, uint256 share) private pure {
        uint256 most = openCount * share / 10_000;
        if (most < ALWAYS_MAY_FALL) most = ALWAYS_MAY_FALL;
        if (fallen > most) revert TooManyFalls(fallen, most);
    }
}
