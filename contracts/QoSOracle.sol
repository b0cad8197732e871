// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./oracle/AsOfBlock.sol";
import {Kickouts} from "./oracle/Kickouts.sol";
import {Lanes} from "./oracle/Lanes.sol";
import {NodeScores} from "./oracle/NodeScores.sol";
import {OracleHead} from "./oracle/OracleHead.sol";
import {Roles} from "./oracle/Roles.sol";
import {SignerQuorum} from "./oracle/SignerQuorum.sol";

/// @title Quality-of-service scores of a network's nodes, reported by a quorum of signers
/// @notice Scores come in rounds. A report is a list of words, 16 nodes each, signed by more than half of the
/// signers, built on the report before it, and true for one block whose hash the chain itself confirms.
/// @dev Where what lives: oracle/OracleHead (head, limits), oracle/Roles (admin, pause), oracle/SignerQuorum
/// (signatures), oracle/NodeScores (indexes, what consumers read), oracle/Kickouts, oracle/Lanes (packing),
/// oracle/AsOfBlock (block hashes).
contract QoSOracle is Kickouts {
    /// @notice How an oracle starts.
    /// @param network the contract whose nodes are scored; it registers them and can kick them out
    /// @param admin sets everything below but network and arbitrum; cannot write scores
    /// @param pauser may stop rounds for a bounded time, zero = nobody
    /// @param vetoer may cancel kickouts, zero = nobody
    /// @param signers who signs reports and kickouts, 1 to 255
    /// @param quorum how many of them must, more than half
    /// @param rules counter of the scoring rules, at least 1
    /// @param rulesHash sha256 of the rules' canonical JSON, not 0
    /// @param limits see Limits
    /// @param bucketMost size of the bucket of executed kickouts, full at first
    /// @param bucketPerFrame how many flow in each frame
    /// @param bucketFrame seconds, at least 1
    /// @param arbitrum this is an Arbitrum chain
    struct Setup {
        address network;
        address admin;
        address pauser;
        address vetoer;
        address[] signers;
        uint8 quorum;
        uint16 rules;
        bytes32 rulesHash;
        Limits limits;
        uint16 bucketMost;
        uint16 bucketPerFrame;
        uint32 bucketFrame;
        bool arbitrum;
    }

    /// @dev A record: the word's index (3 bytes), the word (32 bytes).
    uint256 private constant RECORD_BYTES = 35;

    bytes32 private constant REPORT = keccak256(
        "Report(uint32 round,uint16 rules,bytes32 rulesHash,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,bytes32 dataHash)"
    );

    /// @notice Reports are sent by a plain account, directly: readers take the words from the transaction's input.
    error NotDirect();
    /// @notice The report was made under other scoring rules.
    error WrongRules(uint16 expected, uint16 got);
    /// @notice The next round begins at `turn`, unix seconds.
    error TooSoon(uint256 turn);
    /// @notice The as-of block is not newer than the last report's, or not older than this block.
    error StaleAsOf(uint256 asOf);
    /// @notice The as-of block is farther back than the anchor window.
    error AsOfTooOld(uint256 asOf);
    /// @notice The chain has another block at `asOf`, or cannot tell (0).
    error Reorged(uint256 asOf, bytes32 expected, bytes32 found);
    /// @notice The records are none, not whole, or more than maxWords.
    error BadLength(uint256 length);
    /// @notice Word indexes must rise from record to record.
    error NotAscending(uint256 word);
    /// @notice The word writes a lane whose index is not given.
    error UnknownNode(uint256 word);
    /// @notice The word has a lane above 10002.
    error ScoreTooHigh(uint256 word);
    /// @notice The word sets a lane back to 0.
    error ScoreErased(uint256 word);
    /// @notice The word moves a QoS by more than maxStep.
    error StepTooLarge(uint256 word);

    constructor(Setup memory setup)
        OracleHead(setup.arbitrum)
        NodeScores(setup.network)
        Roles(setup.admin, setup.pauser, setup.vetoer)
        Kickouts(setup.bucketMost, setup.bucketPerFrame, setup.bucketFrame)
    {
        _setSigners(setup.signers, setup.quorum);
        _setRules(setup.rules, setup.rulesHash);
        _setLimits(setup.limits);
    }

    /// @notice What signers sign to report a round on top of the last one.
    function reportDigest(
        uint32 round,
        uint16 rules,
        uint48 asOf,
        bytes32 asOfHash,
        uint40 deadline,
        bytes32 dataHash
    ) public view returns (bytes32) {
        return _digestOf(
            keccak256(
                abi.encode(REPORT, round, rules, rulesHash, lastReport(), asOf, asOfHash, deadline, dataHash)
            )
        );
    }

    /// @notice Accepts the scores of one round. Any plain account may send it; a quorum has signed it.
    /// @param round the last round + 1
    /// @param rules counter of the rules in force
    /// @param asOf number of the block whose state the scores tell
    /// @param asOfHash its hash
    /// @param deadline unix seconds; the latest block that may include this
    /// @param data records of 35 bytes: 3 bytes word index, strictly ascending, and the 32-byte word
    /// @param signatures as many as the quorum, 65 bytes each: r, s, v
    function push(
        uint32 round,
        uint16 rules,
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
        _checkTurn(now_, round, rules, limits_.minInterval);
        if (block.timestamp > deadline) revert Expired(deadline);
        _checkAsOf(now_.asOf, asOf, asOfHash, limits_.anchorWindow);
        bytes32 dataHash = keccak256(data);
        bytes32 digest = reportDigest(round, rules, asOf, asOfHash, deadline, dataHash);
        uint256 signedBy = _checkSignatures(digest, now_.quorum, signatures);
        _writeWords(data, now_.nodeCount, limits_);
        now_.round = round;
        now_.asOf = asOf;
        now_.pushedAt = uint40(block.timestamp);
        _head = now_;
        _keepReport(round, digest);
        emit RoundAccepted(round, asOf, asOfHash, dataHash, digest, rules, signedBy, msg.sender);
    }

    /// @notice Replaces the signers. Reports signed by the old ones and not yet accepted die.
    function setSigners(address[] calldata wanted, uint8 needed) external onlyAdmin {
        _setSigners(wanted, needed);
    }

    /// @notice Replaces every limit.
    function setLimits(Limits calldata wanted) external onlyAdmin {
        _setLimits(wanted);
    }

    /// @notice Names new scoring rules: daemons with others stop at once.
    /// @param counter greater than the one in force
    /// @param hash sha256 of the rules' canonical JSON, not 0
    function setRules(uint16 counter, bytes32 hash) external onlyAdmin {
        _setRules(counter, hash);
    }

    function _checkTurn(Head memory now_, uint32 round, uint16 rules, uint256 minInterval) private view {
        _checkRunning(now_.pausedUntil);
        if (round != now_.round + 1) revert WrongRound(now_.round + 1, round);
        if (rules != now_.rules) revert WrongRules(now_.rules, rules);
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

    function _writeWords(bytes calldata data, uint256 nodeCount, Limits memory limits_) private {
        uint256 length = data.length;
        if (length == 0 || length % RECORD_BYTES != 0 || length / RECORD_BYTES > limits_.maxWords) {
            revert BadLength(length);
        }
        uint256 maxStep = limits_.maxStep;
        uint256 next; // the least word index that the next record may have
        unchecked {
            for (uint256 position; position < length; position += RECORD_BYTES) {
                (uint256 word, uint256 lanes) = _recordAt(data, position);
                if (word < next) revert NotAscending(word);
                next = word + 1;
                if (Lanes.anyBeyond(lanes, word << 4, nodeCount)) revert UnknownNode(word);
                if (Lanes.anyTooHigh(lanes)) revert ScoreTooHigh(word);
                uint256 previous = _words[word];
                if (Lanes.anyErased(previous, lanes)) revert ScoreErased(word);
                if (maxStep < Lanes.MAX_QOS && Lanes.anyStepOver(previous, lanes, maxStep)) revert StepTooLarge(word);
                _words[word] = lanes;
            }
        }
    }

    /// @dev Reads without bounds checks: the caller's loop ends at the last whole record.
    function _recordAt(bytes calldata data, uint256 position) private pure returns (uint256 word, uint256 lanes) {
        assembly ("memory-safe") {
            let record := add(data.offset, position)
            word := shr(232, calldataload(record))
            lanes := calldataload(add(record, 3))
        }
    }
}
