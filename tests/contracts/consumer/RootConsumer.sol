// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {IQoSRoots} from "@qos-oracle/contracts/roots/IQoSRoots.sol";
import {NodeLeaf, QoSProof} from "@qos-oracle/contracts/roots/QoSProof.sol";

/// @dev A third-party project that reads scores by proof.
contract RootConsumer {
    using QoSProof for NodeLeaf;

    IQoSRoots public immutable ORACLE;

    constructor(IQoSRoots oracle) {
        ORACLE = oracle;
    }

    function getQos(uint32 round, NodeLeaf calldata leaf, bytes32[] calldata proof) external view returns (uint256) {
        QoSProof.requireLeaf(QoSProof.getRoot(ORACLE, round, ORACLE.LAG()), leaf, proof);
        return leaf.qosOf();
    }
}
