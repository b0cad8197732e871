// Renders the API reference from the schema of this server; nothing is loaded from elsewhere.
"use strict";

const reference = document.getElementById("main");
// The search index would need a worker, which the page's policy forbids.
Redoc.init(reference.dataset.schema, { disableSearch: true, hideDownloadButton: true }, reference);
