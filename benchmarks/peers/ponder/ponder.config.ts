import { readFileSync } from "node:fs";
import { createConfig } from "ponder";

const { CHAIN_ID, CHAIN_URL, CONTRACT, ABI_FILE, LAST_BLOCK, DATABASE_FOLDER } = process.env;

export default createConfig({
  database: { kind: "pglite", directory: DATABASE_FOLDER },
  chains: { local: { id: Number(CHAIN_ID), rpc: CHAIN_URL } },
  contracts: {
    TaskNetwork: {
      chain: "local",
      abi: JSON.parse(readFileSync(ABI_FILE!, "utf-8")).abi,
      address: CONTRACT as `0x${string}`,
      startBlock: 0,
      endBlock: Number(LAST_BLOCK),
    },
  },
});
