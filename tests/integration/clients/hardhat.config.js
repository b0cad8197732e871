// Hardhat's own chain, started by tests/integration/clients/nodes.py; it mines blocks only on request.
module.exports = {
  // Nothing is compiled here: contracts come from abi/.
  solidity: { compilers: [] },
  networks: {
    hardhat: {
      chainId: 31337,
      hardfork: "cancun",
      initialDate: new Date(Number(process.env.START_TIME) * 1000).toISOString(),
      blockGasLimit: Number(process.env.BLOCK_GAS),
      // As on the other clients' chains.
      allowBlocksWithSameTimestamp: true,
      mining: { auto: false, interval: 0, mempool: { order: "priority" } },
      accounts: { count: Number(process.env.ACCOUNTS) },
    },
  },
};
