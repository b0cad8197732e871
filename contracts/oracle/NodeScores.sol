// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {INodeRegister} from "../INodeRegister.sol";
import {IQoSOracle} from "../IQoSOracle.sol";
import {ITaskNetwork} from "../ITaskNetwork.sol";
import {Lanes} from "./Lanes.sol";
import {OracleHead} from "./OracleHead.sol";

/// @title Which node has which index, and what the last rounds said about it
abstract contract NodeScores is OracleHead, INodeRegister, IQoSOracle {
    /// @dev Word indexes are 3 bytes in a report, so there could be 2^28 nodes; 2^24 are plenty.
    uint256 private constant MAX_NODES = 1 << 24;

    /// @notice The network whose nodes are scored: alone registers nodes, and is asked to kick them out.
    ITaskNetwork public immutable NETWORK;

    mapping(uint256 => uint256) internal _words;
    mapping(address => uint256) private _indexPlusOne;
    mapping(uint256 => address) private _nodes;

    /// @notice This address never joined.
    error NotRegistered(address node);
    /// @notice Every index is given.
    error IndexSpaceFull();
    /// @notice The zero address is not a node, and not a network.
    error ZeroAddress();

    constructor(address network) {
        if (network == address(0)) revert ZeroAddress();
        NETWORK = ITaskNetwork(network);
    }

    /// @inheritdoc INodeRegister
    function register(address node) external returns (uint256 index) {
        if (msg.sender != address(NETWORK)) revert NotAllowed(msg.sender);
        if (node == address(0)) revert ZeroAddress();
        uint256 held = _indexPlusOne[node];
        if (held != 0) {
            index = held - 1;
            if (laneAt(index) == 0) return index;
            _onRetired(index);
            emit NodeIndexRetired(index, node);
        }
        index = _head.nodeCount;
        if (index == MAX_NODES) revert IndexSpaceFull();
        _head.nodeCount = uint32(index + 1);
        _indexPlusOne[node] = index + 1;
        _nodes[index] = node;
        emit NodeRegistered(index, node);
    }

    /// @inheritdoc IQoSOracle
    function scoreOf(address node)
        external
        view
        returns (bool known, bool selectable, uint16 qos, uint32 round, uint40 age)
    {
        round = _head.round;
        age = _age();
        uint256 held = _indexPlusOne[node];
        if (held == 0) return (false, false, 0, round, age);
        uint16 lane = laneAt(held - 1);
        known = lane != 0;
        selectable = lane != Lanes.DO_NOT_SELECT || age > _limits.maxAgeSeconds;
        if (lane > Lanes.ZERO_QOS) qos = lane - uint16(Lanes.ZERO_QOS);
    }

    /// @inheritdoc IQoSOracle
    function isSelectable(address node) external view returns (bool) {
        uint256 held = _indexPlusOne[node];
        if (held == 0) return false;
        return laneAt(held - 1) != Lanes.DO_NOT_SELECT || !isFresh();
    }

    /// @inheritdoc IQoSOracle
    function isFresh() public view returns (bool) {
        return _age() <= _limits.maxAgeSeconds;
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
    function indexOf(address node) external view returns (uint256 index) {
        uint256 held = _indexPlusOne[node];
        if (held == 0) revert NotRegistered(node);
        return held - 1;
    }

    /// @inheritdoc IQoSOracle
    function nodeAt(uint256 index) public view returns (address node) {
        return _nodes[index];
    }

    /// @dev The index was given and its node has not taken a newer one since.
    function _isCurrent(uint256 index) internal view returns (bool) {
        address node = _nodes[index];
        return node != address(0) && _indexPlusOne[node] == index + 1;
    }

    /// @dev Called when a re-joining node leaves `index` for a new one.
    function _onRetired(uint256 index) internal virtual;

    function _age() private view returns (uint40) {
        return uint40(block.timestamp) - _head.pushedAt;
    }
}
