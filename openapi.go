package lockstep

import _ "embed" // for openAPI

// openAPI describes the HTTP API (OpenAPI 3.1). Package httpapi serves it, and
// its tests check every response against it.
//
//go:embed openapi.yaml
var openAPI string
