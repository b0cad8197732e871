// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Roles} from "./Roles.sol";

/// @title Rate limits of kickouts: proposals per round, executions per time
abstract contract KickCounts is Roles {
    /// @notice A token bucket of executed kickouts (a stolen quorum can expel at most `bucketMost` nodes at once), and
    /// the gas and length of a kickout.
    /// @param kickGas gas that the target gets, 50000 to 15000000
    /// @param kickCooldown seconds that an expulsion executed from now on lasts, the maximum = for ever
    /// @param bucketMost the bucket's size, 0 = no kickouts
    /// @param bucketPerFrame tokens added in each frame
    /// @param bucketFrame seconds, at least 1
    struct KickLimits {
        uint32 kickGas;
        uint40 kickCooldown;
        uint16 bucketMost;
        uint16 bucketPerFrame;
        uint32 bucketFrame;
    }

    /// @dev Below the minimum no target can end a membership; with the maximum a transaction fits in 2^24 gas
    /// (EIP-7825).
    uint256 private constant LEAST_KICK_GAS = 50_000;
    uint256 private constant MOST_KICK_GAS = 15_000_000;

    KickLimits internal _kickLimits;

    /// @dev Tokens in the bucket at `_since`, the start of a frame, unix seconds.
    uint16 private _left;
    uint40 private _since;
    uint32 private _countedRound;
    uint8 private _kicksInRound;

    event KickLimitsSet(KickLimits limits);

    /// @notice The round already has its maximum number of proposed kickouts.
    error KickLimit(uint8 maxKicksPerRound);
    /// @notice The bucket of executed kickouts is empty until `refillAt`, unix seconds (0 = it never refills).
    error BucketEmpty(uint256 refillAt);

    constructor(KickLimits memory first) {
        _left = first.bucketMost;
        _setKickLimits(first);
    }

    /// @notice Returns the gas and length of kickouts, and the bucket's size and refill rate.
    function kickLimits() external view returns (KickLimits memory) {
        return _kickLimits;
    }

    /// @notice Returns the current state of the bucket.
    /// @return left number of kickouts that can be executed
    /// @return since unix seconds; start of the current frame
    function bucket() external view returns (uint16 left, uint40 since) {
        return _refilled();
    }

    /// @notice Replaces all limits of kickouts; tokens in the bucket stay, up to the new size.
    function setKickLimits(KickLimits calldata wanted) external onlyAdmin {
        (uint16 left,) = _refilled();
        _left = left < wanted.bucketMost ? left : wanted.bucketMost;
        _setKickLimits(wanted);
    }

    function _countProposal(uint32 round, uint8 most) internal {
        uint8 before = _countedRound == round ? _kicksInRound : 0;
        if (before >= most) revert KickLimit(most);
        _countedRound = round;
        _kicksInRound = before + 1;
    }

    function _takeFromBucket() internal {
        (uint16 left, uint40 since) = _refilled();
        KickLimits memory limits_ = _kickLimits;
        if (left == 0) {
            bool refills = limits_.bucketPerFrame != 0 && limits_.bucketMost != 0;
            revert BucketEmpty(refills ? uint256(since) + limits_.bucketFrame : 0);
        }
        (_left, _since) = (left - 1, since);
    }

    function _setKickLimits(KickLimits memory wanted) private {
        if (wanted.bucketFrame == 0 || wanted.kickGas < LEAST_KICK_GAS || wanted.kickGas > MOST_KICK_GAS) {
            revert BadLimits();
        }
        _kickLimits = wanted;
        _since = uint40(block.timestamp);
        emit KickLimitsSet(wanted);
    }

    function _refilled() private view returns (uint16 left, uint40 since) {
        KickLimits memory limits_ = _kickLimits;
        uint256 frames = (block.timestamp - _since) / limits_.bucketFrame;
        uint256 full = _left + frames * limits_.bucketPerFrame;
        left = full > limits_.bucketMost ? limits_.bucketMost : uint16(full);
        since = _since + uint40(frames * limits_.bucketFrame);
    }
}
