import createFetchClient from "openapi-fetch";

export function createClient(options) {
  return createFetchClient(options);
}
