package httpapi

import (
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"net/http"
	"strings"
)

// pageHTML is the page for people: one file without anything external, which follows /status?watch. pagePolicy
// allows its one script.
//
//go:embed ui/index.html
var pageHTML string

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy(pageHTML))
	s.reply(w, http.StatusOK, pageHTML)
}

// pagePolicy allows the script and the style of the page and nothing else, since
// the page displays texts from other nodes.
func pagePolicy(html string) string {
	return "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; script-src '" + contentHash(html, "script") + "'; style-src '" + contentHash(html, "style") + "'"
}

// contentHash is the CSP hash of the page's only element of that name.
func contentHash(html, element string) string {
	_, rest, _ := strings.Cut(html, "<"+element+">")
	content, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
