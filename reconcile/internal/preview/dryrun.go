package preview

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// DryRun returns a copy of cfg with which every write is a dry run, whatever a
// caller requests.
func DryRun(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRunner{next} })
	return out
}

// dryRunner makes every request a dry run.
type dryRunner struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the connections below.
func (d dryRunner) WrappedRoundTripper() http.RoundTripper { return d.next }

// RoundTrip refuses DELETE: if a DELETE carries a body, the server reads its options from
// there, and ignores a dryRun in the query.
func (d dryRunner) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet:
		return d.next.RoundTrip(req)
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		dry := req.Clone(req.Context())
		query := dry.URL.Query()
		query.Set("dryRun", "All")
		dry.URL.RawQuery = query.Encode()
		return d.next.RoundTrip(dry)
	}
	return nil, fmt.Errorf("a preview makes no %s", req.Method)
}
