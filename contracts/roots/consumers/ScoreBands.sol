// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSRoots} from "../IQoSRoots.sol";
import {NodeLeaf, QoSProof} from "../QoSProof.sol";

/// @notice A range of scores. None: no score was stated yet.
enum Band {
    None,
    DoNotSelect,
    Low,
    Middle,
    Good,
    Best
}

/// @title Part of the examples: a score is written to a registry when it moves into another band
/// @notice An entry in a registry is expensive and cannot be struck. So an entry is made from a round that is LAG rounds
/// old, and is not repeated each round.
library ScoreBands {
    /// @notice Reverts unless the leaf is in the round that is `lag` rounds older than the last one.
    /// @return round that round
    /// @return root its root
    function requireLaggedLeaf(IQoSRoots oracle, uint32 lag, NodeLeaf calldata leaf, bytes32[] calldata proof)
        internal
        view
        returns (uint32 round, bytes32 root)
    {
        (uint32 lastRound,,) = oracle.last();
        round = lastRound < lag ? 0 : lastRound - lag;
        root = oracle.rootOf(round);
        QoSProof.requireLeaf(root, leaf, proof);
    }

    /// @notice Returns the band of a leaf; the bands of nodes that may be selected begin at a QoS of 0, 2000, 5000 and
    /// 8000.
    function bandFor(NodeLeaf calldata leaf) internal pure returns (Band) {
        if (!QoSProof.isSelectable(leaf)) return Band.DoNotSelect;
        uint256 qos = QoSProof.qosOf(leaf);
        if (qos < 2_000) return Band.Low;
        if (qos < 5_000) return Band.Middle;
        return qos < 8_000 ? Band.Good : Band.Best;
    }
}
