import { createClient, type Schema } from "@qos-oracle/client";

const client = createClient({ baseUrl: process.argv[2] ?? "" });

const { data, error } = await client.GET("/v1/nodes", { params: { query: { limit: 2 } } });
if (!data) throw new Error(error?.detail);
const best: Schema<"NodeEntry"> | undefined = data.nodes[0];
const missing = await client.GET("/v1/nodes/{node}", {
  params: { path: { node: "0x9999999999999999999999999999999999999999" } },
});
console.log(JSON.stringify({ best: best?.node, count: data.nodes.length, missing: missing.error?.status }));

// @ts-expect-error the limit is a number
await client.GET("/v1/nodes", { params: { query: { limit: "2" } } });
// @ts-expect-error a node has no such field
console.log(best?.score);
