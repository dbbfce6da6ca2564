// The routes of the service, to read and to try; nothing is loaded from elsewhere.

import { call } from "/static/api.js";

const spec = await call("GET", "/api/openapi.json");
window.SwaggerUIBundle({
  spec,
  domNode: document.getElementById("routes"),
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  requestInterceptor(request) {
    // As the other pages do: the header that no foreign site can send, and the token if there is one.
    request.headers["X-Stamo"] = "1";
    const token = sessionStorage.getItem("stamo-token");
    if (token) request.headers.Authorization = `Bearer ${token}`;
    return request;
  },
});
