import { readFileSync } from "node:fs";
import { ponder } from "ponder:registry";
import { networkEvent } from "ponder:schema";

const abi = JSON.parse(readFileSync(process.env.ABI_FILE!, "utf-8")).abi;

for (const item of abi) {
  if (item.type !== "event") continue;
  ponder.on(`TaskNetwork:${item.name}` as any, async ({ event, context }: any) => {
    await context.db.insert(networkEvent).values({
      id: event.id,
      block: event.block.number,
      blockHash: event.block.hash,
      transactionHash: event.transaction.hash,
      name: item.name,
      args: JSON.stringify(event.args, (_, value) =>
        typeof value === "bigint" ? value.toString() : value,
      ),
    });
  });
}
