// Package lockstep holds what stands at the root of the repository and is a
// part of the program: the description of its HTTP API. Package httpapi serves
// it. It imports nothing.
package lockstep

import _ "embed" // for the description

// OpenAPI is openapi.yaml, the description of the HTTP API (OpenAPI 3.1). Tests
// hold the server to it.
//
//go:embed openapi.yaml
var OpenAPI string
