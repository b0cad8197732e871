// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSOracle} from "../IQoSOracle.sol";
import {Lanes} from "./Lanes.sol";
import {OracleHead} from "./OracleHead.sol";

/// @title Storage of nodes and lanes, and the views for consumers
abstract contract NodeScores is OracleHead, IQoSOracle {
    /// @notice State of a node's kickout. None: no kickout, or it was cancelled or readmitted. Pending: proposed;
    /// isKickPending returns whether it can still be executed. Expelled: executed. Refused: executed, and the call to
    /// the target failed.
    enum KickState {
        None,
        Pending,
        Expelled,
        Refused
    }

    /// @notice One storage slot per address. Kickouts belong to addresses: they survive quitting and joining again.
    /// @param indexPlusOne 0 = the node has no index
    /// @param kick see KickState
    /// @param readyAt unix seconds; earliest execution of a pending kickout
    /// @param diesAt unix seconds; latest execution, so that an old proposal cannot be used when the node's lane is low
    /// again
    /// @param expelledUntil unix seconds; end of the expulsion, the maximum = never
    /// @param round the round of the last proposal, execution, retry, cancellation or readmission
    /// @param config the configuration of the proposal
    struct Node {
        uint24 indexPlusOne;
        KickState kick;
        uint40 readyAt;
        uint40 diesAt;
        uint40 expelledUntil;
        uint32 round;
        uint16 config;
    }

    /// @notice Weight of a node without a score: the same as for a QoS of 0.5, so that it gets work.
    uint256 public constant NEWCOMER = 5_000;

    mapping(uint256 word => uint256 lanes) internal _words;
    mapping(address node => Node) internal _nodes;

    /// @notice This address has no index.
    error NotRegistered(address node);

    /// @notice Returns the stored index and kickout of an address; all zero if the oracle has no record of it.
    function nodeOf(address node) external view returns (Node memory) {
        return _nodes[node];
    }

    /// @inheritdoc IQoSOracle
    function weightOf(address node) external view returns (uint256 weight) {
        Node memory held = _nodes[node];
        if (_expelled(held)) return 0;
        if (held.indexPlusOne == 0 || !_isFresh(_head)) return NEWCOMER;
        return laneAt(held.indexPlusOne - 1) - Lanes.DO_NOT_SELECT;
    }

    /// @inheritdoc IQoSOracle
    function scoreOf(address node)
        external
        view
        returns (bool known, bool selectable, uint16 qos, uint32 round, uint40 age)
    {
        Head memory now_ = _head;
        round = now_.round;
        age = uint40(block.timestamp) - now_.pushedAt;
        Node memory held = _nodes[node];
        known = held.indexPlusOne != 0;
        bool expelled = _expelled(held);
        if (!known) return (known, !expelled, qos, round, age);
        uint16 lane = laneAt(held.indexPlusOne - 1);
        selectable = !expelled && (lane != Lanes.DO_NOT_SELECT || !_isFresh(now_));
        if (!expelled && lane > Lanes.ZERO_QOS) qos = lane - uint16(Lanes.ZERO_QOS);
    }

    /// @inheritdoc IQoSOracle
    function isSelectable(address node) external view returns (bool) {
        Node memory held = _nodes[node];
        if (_expelled(held)) return false;
        if (held.indexPlusOne == 0) return true;
        return laneAt(held.indexPlusOne - 1) != Lanes.DO_NOT_SELECT || !_isFresh(_head);
    }

    /// @inheritdoc IQoSOracle
    function isExpelled(address node) external view returns (bool) {
        return _expelled(_nodes[node]);
    }

    /// @inheritdoc IQoSOracle
    function isKickPending(address node) external view returns (bool) {
        return _isLive(_nodes[node]);
    }

    /// @inheritdoc IQoSOracle
    function isFresh() public view returns (bool) {
        return _isFresh(_head);
    }

    /// @inheritdoc IQoSOracle
    function wordsAt(uint256 from, uint256 count) external view returns (uint256[] memory words) {
        words = new uint256[](count);
        for (uint256 i; i < count; ++i) {
            words[i] = _words[from + i];
        }
    }

    /// @inheritdoc IQoSOracle
    function laneAt(uint256 index) public view returns (uint16 lane) {
        return Lanes.laneOf(_words[index >> 4], index);
    }

    /// @inheritdoc IQoSOracle
    function indexOf(address node) public view returns (uint256 index) {
        uint256 held = _nodes[node].indexPlusOne;
        if (held == 0) revert NotRegistered(node);
        return held - 1;
    }

    /// @dev Returns whether a kickout was executed, even if the target refused, and the expulsion has not ended.
    function _expelled(Node memory held) internal view returns (bool) {
        return held.kick >= KickState.Expelled && block.timestamp < held.expelledUntil;
    }

    /// @dev Returns whether a kickout is proposed, not expired, and its signers and rules were not replaced.
    function _isLive(Node memory held) internal view returns (bool) {
        return held.kick == KickState.Pending && block.timestamp <= held.diesAt
            && held.config == _head.configCount;
    }
}
