// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {OracleRoles} from "./OracleRoles.sol";

/// @title Rate limit of executed kickouts, and their gas and length
abstract contract KickoutLimits is OracleRoles {
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

    /// @dev Written by the constructor only.
    KickLimits private _kickFloors;

    /// @dev Tokens in the bucket at `_since`, the start of a frame, unix seconds.
    uint16 private _left;
    uint40 private _since;

    /// @notice The limits of kickouts were set.
    event KickLimitsSet(KickLimits limits);

    /// @notice The bucket of executed kickouts is empty until `refillAt`, unix seconds (0 = it never refills).
    error BucketEmpty(uint256 refillAt);

    constructor(KickLimits memory first, KickLimits memory loosest) {
        _kickFloors = loosest;
        _left = first.bucketMost;
        _setKickLimits(first);
    }

    /// @notice Returns the gas and length of kickouts, and the bucket's size and refill rate.
    function kickLimits() external view returns (KickLimits memory) {
        return _kickLimits;
    }

    /// @notice Returns the loosest limits of kickouts that the admin can ever set, fixed by the constructor. Their
    /// kickGas is not used.
    function kickFloors() external view returns (KickLimits memory) {
        return _kickFloors;
    }

    /// @notice Returns the current state of the bucket.
    /// @return left number of kickouts that can be executed
    /// @return since unix seconds; start of the current frame
    function bucket() external view returns (uint16 left, uint40 since) {
        return _refilled();
    }

    /// @notice Replaces all limits of kickouts, within the floors; tokens in the bucket stay, up to the new size.
    function setKickLimits(KickLimits calldata wanted) external onlyAdmin {
        (uint16 left,) = _refilled();
        _left = left < wanted.bucketMost ? left : wanted.bucketMost;
        _setKickLimits(wanted);
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
        KickLimits memory loosest = _kickFloors;
        bool isWithin = wanted.kickCooldown <= loosest.kickCooldown && wanted.bucketMost <= loosest.bucketMost
            && wanted.bucketPerFrame <= loosest.bucketPerFrame && wanted.bucketFrame >= loosest.bucketFrame;
        if (
            !isWithin || wanted.bucketFrame == 0 || wanted.kickGas < LEAST_KICK_GAS
                || wanted.kickGas > MOST_KICK_GAS
        ) revert BadLimits();
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
