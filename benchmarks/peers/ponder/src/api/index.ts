import { Hono } from "hono";
import { count } from "ponder";
import { db } from "ponder:api";
import schema from "ponder:schema";

const app = new Hono();

app.get("/count", async (context) => {
  const [row] = await db.select({ events: count() }).from(schema.networkEvent);
  return context.json(row);
});

export default app;
