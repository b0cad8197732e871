// Draws the API reference from the schema that this server publishes. Nothing comes from elsewhere.
"use strict";

const reference = document.getElementById("main");
// The search index would need a worker, which the page's policy forbids.
Redoc.init(reference.dataset.schema, { disableSearch: true, hideDownloadButton: true }, reference);
