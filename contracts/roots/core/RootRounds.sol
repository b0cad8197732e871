// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./AsOfBlock.sol";
import {OracleRoles} from "./OracleRoles.sol";
import {ReportSigners} from "./ReportSigners.sol";

/// @notice A report, as it is sent. The signature covers all fields, with the digest of the configuration in place of
/// `config`, and the root of the last round (`prev`).
/// @param round the last round + 1
/// @param config counter of the current configuration
/// @param asOf number of the block at which the leaves were computed
/// @param asOfHash its hash
/// @param deadline unix seconds, at most MAX_TTL ahead; last block time that may include the report
/// @param root root of the round's tree, not 0; see docs/reference/report-format.md#roots
struct Report {
    uint32 round;
    uint16 config;
    uint48 asOf;
    bytes32 asOfHash;
    uint40 deadline;
    bytes32 root;
}

/// @title Rounds: one root over the leaves of all nodes, as of a block that the chain confirms
/// @notice Anyone can compute the leaves from the chain up to the as-of block and the rules; the contract sees only
/// their root. Anyone may send a report, in any way, because readers take nothing from the transaction's input.
abstract contract RootRounds is ReportSigners, OracleRoles {
    bytes32 private constant REPORT = keccak256(
        "Report(bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,bytes32 root)"
    );

    /// @notice The next round may be accepted from `turn` on, unix seconds.
    error TooSoon(uint256 turn);
    /// @notice The as-of block is not newer than the last report's, or not older than the current block.
    error StaleAsOf(uint256 asOf);
    /// @notice The as-of block is older than the anchor window.
    error AsOfTooOld(uint256 asOf);
    /// @notice The chain has another block at `asOf`, or does not return its hash (0).
    error Reorged(uint256 asOf, bytes32 expected, bytes32 found);

    /// @notice Returns the EIP-712 digest to sign for a report that follows the last round, under the current
    /// configuration; `report.config` is not read.
    function reportDigest(Report calldata report) public view returns (bytes32) {
        return _hashTypedDataV4(
            keccak256(
                abi.encode(
                    REPORT,
                    configDigest,
                    report.round,
                    _rootAt(_head.round),
                    report.asOf,
                    report.asOfHash,
                    report.deadline,
                    report.root
                )
            )
        );
    }

    /// @notice Accepts a round. Anyone may send it; a quorum must have signed it.
    /// @param signatures as many as the quorum, 65 bytes each: r, s, v
    function push(Report calldata report, bytes calldata signatures) external {
        Head memory now_ = _head;
        _checkTurn(now_, report);
        if (block.timestamp > report.deadline) revert Expired(report.deadline);
        if (report.deadline > block.timestamp + MAX_TTL) revert DeadlineTooFar(report.deadline);
        _checkAsOf(now_.asOf, report.asOf, report.asOfHash);
        if (report.root == 0) revert NoRoot(report.round);
        uint256 signedBy = _checkSignatures(reportDigest(report), now_.quorum, signatures);
        now_.round = report.round;
        now_.asOf = uint40(report.asOf);
        now_.pushedAt = uint40(block.timestamp);
        now_.heldSeconds = 0;
        now_.roundConfig = now_.configCount;
        _head = now_;
        _keepRoot(report.round, report.root);
        emit RoundAccepted(report.round, report.asOf, report.asOfHash, report.root, configDigest, signedBy);
    }

    /// @notice Strikes the last rounds, whose roots were found to be wrong: nothing can be proven with them, and the
    /// next report names 0 as `prev`. Only in a pause, so that strikes are as rare as pauses.
    /// @param from first round to strike, one of the last KEPT
    function strike(uint32 from) external onlyPauser {
        Head memory now_ = _head;
        if (block.timestamp >= now_.pausedUntil) revert NotPaused();
        if (from == 0 || from > now_.round || now_.round - from >= KEPT) revert WrongRound(now_.round, from);
        for (uint32 round = from; round <= now_.round; ++round) {
            _keepRoot(round, 0);
        }
        emit RoundsStruck(from, now_.round);
    }

    function _checkTurn(Head memory now_, Report calldata report) private view {
        _checkRunning(now_.pausedUntil);
        if (report.round != now_.round + 1) revert WrongRound(now_.round + 1, report.round);
        if (report.config != now_.configCount) revert WrongConfig(now_.configCount, report.config);
        uint256 turn = uint256(now_.pushedAt) + _limits.minInterval;
        if (block.timestamp < turn) revert TooSoon(turn);
    }

    /// @dev Every report passes this check: after its block has left the window, a new report is needed.
    function _checkAsOf(uint256 before, uint256 asOf, bytes32 asOfHash) private view {
        uint256 current = AsOfBlock.current(ON_ARBITRUM);
        if (asOf <= before || asOf >= current) revert StaleAsOf(asOf);
        if (current - asOf > _limits.anchorWindow) revert AsOfTooOld(asOf);
        bytes32 found = AsOfBlock.hashOf(asOf, ON_ARBITRUM);
        if (found == 0 || found != asOfHash) revert Reorged(asOf, asOfHash, found);
    }
}
