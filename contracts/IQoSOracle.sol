// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Interface for reading scores without a proof, which QoSWords offers
/// @notice A score is a QoS from 0 to 10000 (10000 = 1.0). A consumer that draws nodes by weight needs only `weightOf`,
/// which covers exclusions, expulsions, newcomers and stale scores.
/// @dev A score describes quality, not membership, which the network itself records. So an address without an index is
/// a newcomer: selectable, with the newcomer's weight.
interface IQoSOracle {
    /// @notice `index` was assigned to `node`.
    event NodeRegistered(uint256 indexed index, address indexed node);

    /// @notice Returns the weight of a node in a draw, which combines all the values below.
    /// @return weight 0 = must not be selected: expelled, however old the scores, or excluded by a fresh round. 5000 =
    /// no usable score: a newcomer, or the scores are stale. Else QoS + 1, 1 to 10001
    function weightOf(address node) external view returns (uint256 weight);

    /// @notice Returns the score of a node and its age.
    /// @param node address of the node
    /// @return known whether the node has an index
    /// @return selectable see isSelectable
    /// @return qos 0 to 10000; 0 also if the node is not known, excluded or expelled
    /// @return round the round of the score, 0 = none
    /// @return age seconds since the oracle's last round (since 1970 if there is none), including pauses
    function scoreOf(address node)
        external
        view
        returns (bool known, bool selectable, uint16 qos, uint32 round, uint40 age);

    /// @notice Returns whether the node may be given work. False for an expelled node, however old the scores, and for
    /// a node that a fresh round excludes. True for a newcomer, for a QoS of 0, and, once the scores are stale, for
    /// every node that is not expelled (an oracle that stopped reporting excludes no node). Membership is not checked.
    function isSelectable(address node) external view returns (bool);

    /// @notice Returns whether this oracle has expelled the node, whether or not the network has ended its membership,
    /// until it is readmitted or the expulsion ends (by default never).
    function isExpelled(address node) external view returns (bool);

    /// @notice Returns whether the last round is at most `limits().maxAgeSeconds` old; pauses that began while it was
    /// younger are not counted.
    function isFresh() external view returns (bool);

    /// @notice Returns packed lanes for bulk readers: 16 lanes of 16 bits a word, lane of index i in word i / 16 at bit
    /// 16 * (i % 16).
    /// @dev A lane: 0 = no score, 1 = do not select, 2 to 10002 = QoS + 2.
    /// @param from index of the first word
    /// @param count number of words; words past the last node are 0
    function wordsAt(uint256 from, uint256 count) external view returns (uint256[] memory words);

    /// @notice Returns one lane: 0 = no score, 1 = do not select, 2 to 10002 = QoS + 2.
    function laneAt(uint256 index) external view returns (uint16 lane);

    /// @notice Returns the current index of a node; reverts with NotRegistered if it has none.
    function indexOf(address node) external view returns (uint256 index);
}
