import { EvmBatchProcessor } from "@subsquid/evm-processor";
import { Database, LocalDest } from "@subsquid/file-store";
import { Column, Table, Types } from "@subsquid/file-store-csv";
import { events } from "./abi/TaskNetwork";

const { CHAIN_URL, CONTRACT, LAST_BLOCK, DATA_FOLDER } = process.env;

const eventByTopic = new Map(
  Object.entries(events).map(([name, event]) => [event.topic, { name, event: event as any }]),
);

const processor = new EvmBatchProcessor()
  .setRpcEndpoint({ url: CHAIN_URL!, capacity: 10 })
  .setFinalityConfirmation(10)
  .setBlockRange({ from: 0, to: Number(LAST_BLOCK) })
  .addLog({ address: [CONTRACT!.toLowerCase()] })
  .setFields({ log: { topics: true, data: true, transactionHash: true } });

const database = new Database({
  tables: {
    networkEvents: new Table("network_events.csv", {
      block: Column(Types.Numeric()),
      logIndex: Column(Types.Numeric()),
      blockHash: Column(Types.String()),
      transactionHash: Column(Types.String()),
      name: Column(Types.String()),
      args: Column(Types.String()),
    }),
  },
  dest: new LocalDest(DATA_FOLDER!),
});

processor.run(database, async (context) => {
  context.store.setForceFlush(context.blocks[context.blocks.length - 1].header.height >= Number(LAST_BLOCK));
  for (const block of context.blocks) {
    for (const log of block.logs) {
      const { name, event } = eventByTopic.get(log.topics[0])!;
      context.store.networkEvents.write({
        block: block.header.height,
        logIndex: log.logIndex,
        blockHash: block.header.hash,
        transactionHash: log.transactionHash,
        name,
        args: JSON.stringify(event.decode(log), (_, value) =>
          typeof value === "bigint" ? value.toString() : value,
        ),
      });
    }
  }
});
