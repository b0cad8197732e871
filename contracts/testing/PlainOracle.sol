// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IKickTarget} from "../IKickTarget.sol";

/// @title Oracle and scores with settable results and kickouts
/// @notice Only for tests of the network.
contract PlainOracle {
    /// @notice Behaviour of the view functions.
    enum Mood {
        Sound,
        Reverting,
        Endless,
        Wordy
    }

    /// @notice Whether a node is accused.
    mapping(address node => bool) public pending;

    /// @notice Whether a node is expelled.
    mapping(address node => bool) public expelled;

    /// @notice Whether a node may not be selected.
    mapping(address node => bool) public excluded;

    Mood public mood;

    /// @notice The oracle is set to revert.
    error Unwell();

    function setPending(address node, bool to) external {
        pending[node] = to;
    }

    function setExpelled(address node, bool to) external {
        expelled[node] = to;
    }

    function setExcluded(address node, bool to) external {
        excluded[node] = to;
    }

    function setMood(Mood to) external {
        mood = to;
    }

    /// @notice See IQoSRoots.
    function isKickPending(address node) external view returns (bool) {
        _bear();
        return pending[node];
    }

    /// @notice See IQoSRoots.
    function isExpelled(address node) external view returns (bool) {
        _bear();
        return expelled[node];
    }

    /// @notice See IQoSOracle.
    function isSelectable(address node) external view returns (bool) {
        _bear();
        return !excluded[node];
    }

    /// @notice Kicks a node out of a network.
    function kick(IKickTarget network, address node, bytes32 evidence) external {
        network.kick(node, evidence);
    }

    function _bear() private view {
        if (mood == Mood.Reverting) revert Unwell();
        uint256 spent;
        while (mood == Mood.Endless) ++spent;
        if (mood != Mood.Wordy) return;
        assembly ("memory-safe") {
            return(0, 4096)
        }
    }
}
