// Package page shows a sidecar's page (httpapi/ui) in Chromium, and takes the pictures
// of the docs. Browser is a client of the DevTools protocol over a pipe, which needs
// neither a port nor a WebSocket. The tests skip where Chromium is missing.
package page
