// The routes of the service, to read and to try; nothing is loaded from elsewhere.

import { call, ownHeaders } from "/static/api.js";

const spec = await call("GET", "/openapi.json");
window.SwaggerUIBundle({
  spec,
  domNode: document.getElementById("routes"),
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  requestInterceptor(request) {
    Object.assign(request.headers, ownHeaders());
    return request;
  },
});
