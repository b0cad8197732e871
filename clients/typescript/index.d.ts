import type { Client, ClientOptions } from "openapi-fetch";
import type { components, paths } from "./schema.js";

export type { paths };

/** The type of a response or of a part of one, by its name in the description: `Schema<"NodeView">`. */
export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name];

/** A client of the read API; `baseUrl` is the address of a server, without `/v1`. */
export function createClient(options: ClientOptions & { baseUrl: string }): Client<paths>;
