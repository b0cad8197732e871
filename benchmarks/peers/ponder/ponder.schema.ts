import { onchainTable } from "ponder";

export const networkEvent = onchainTable("network_event", (t) => ({
  id: t.text().primaryKey(),
  block: t.bigint().notNull(),
  blockHash: t.hex().notNull(),
  transactionHash: t.hex().notNull(),
  name: t.text().notNull(),
  args: t.text().notNull(),
}));
