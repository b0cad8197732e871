// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Sets of nodes by model: a list, and each node's place in it, from 1
/// @notice Two words for each node and model, written at every change: a node with many models costs much gas.
library ModelNodes {
    struct Nodes {
        address[] list;
        mapping(address => uint256) places;
    }

    function has(Nodes storage nodes, address node) internal view returns (bool) {
        return nodes.places[node] != 0;
    }

    function add(Nodes storage nodes, address node) internal {
        if (has(nodes, node)) return;
        nodes.list.push(node);
        nodes.places[node] = nodes.list.length;
    }

    function remove(Nodes storage nodes, address node) internal {
        uint256 place = nodes.places[node];
        if (place == 0) return;
        address last = nodes.list[nodes.list.length - 1];
        nodes.list[place - 1] = last;
        nodes.places[last] = place;
        nodes.list.pop();
        nodes.places[node] = 0;
    }
}
