// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSOracle} from "../IQoSOracle.sol";
import {Lanes} from "./Lanes.sol";
import {OracleHead} from "./OracleHead.sol";

/// @title What is known of each node, and what consumers read
abstract contract NodeScores is OracleHead, IQoSOracle {
    /// @notice Where a node stands on its way out.
    /// None: nothing is on, or it was cancelled or readmitted. Pending: proposed; whether it can still be executed,
    /// isKickPending tells. Expelled: executed. Refused: executed, and the target did not carry it out.
    enum KickState {
        None,
        Pending,
        Expelled,
        Refused
    }

    /// @notice One storage slot per address. Kickouts are of addresses: they stay over quitting and joining again.
    /// @param indexPlusOne 0 = the node has no index
    /// @param kick see KickState
    /// @param readyAt unix seconds; earliest execution of what is pending
    /// @param diesAt unix seconds; latest execution, so that no old proposal lies in wait for the node's next bad day
    /// @param expelledUntil unix seconds; end of the expulsion, the greatest number = never
    /// @param round the round of the last proposal, execution, retry of an executed one, cancellation or readmission
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

    /// @notice What a node weighs of which nothing is known: as much as one with a QoS of 0.5, so that it gets work.
    uint256 public constant NEWCOMER = 5_000;

    mapping(uint256 word => uint256 lanes) internal _words;
    mapping(address node => Node) internal _nodes;

    /// @notice This address has no index.
    error NotRegistered(address node);

    /// @notice Index and kickout of an address, as stored; all zero when the oracle never heard of it.
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

    /// @dev Executed, carried out by the network or not, and its time is not over.
    function _expelled(Node memory held) internal view returns (bool) {
        return held.kick >= KickState.Expelled && block.timestamp < held.expelledUntil;
    }

    /// @dev Proposed, not too late, and not by signers or under rules that were replaced.
    function _isLive(Node memory held) internal view returns (bool) {
        return held.kick == KickState.Pending && block.timestamp <= held.diesAt
            && held.config == _head.configCount;
    }
}
