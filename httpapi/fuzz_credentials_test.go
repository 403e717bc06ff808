package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi/reviews"
	"github.com/lockstep-dev/lockstep/internal/cputime"
)

// FuzzCredentials: whatever a client shows, it reads what the kube-apiserver lets its user read, and the health
// endpoints. To find that out costs less than 30 ms of a processor.
func FuzzCredentials(f *testing.F) {
	const token, path = "of-a-reader", "/version"
	f.Add("Bearer "+token, path)
	f.Add("bearer \t"+token, "/status?watch=0")
	f.Add("Basic "+token, "/version/../status")
	f.Add("Bearer "+strings.Repeat("a", 1<<15), "/%2e%2e/flagz")
	f.Add(strings.Repeat(" ", 1<<15), "//metrics#/version")
	answer := func(status map[string]any) ([]byte, error) { return json.Marshal(map[string]any{"status": status}) }
	cfg := reviews.Config{
		Authentication: func(_ context.Context, _ string, body []byte) ([]byte, error) {
			var in struct{ Spec struct{ Token string } }
			if err := json.Unmarshal(body, &in); err != nil {
				return nil, err
			}
			return answer(map[string]any{"authenticated": in.Spec.Token == token, "user": reviews.User{Name: "reader"}})
		},
		Authorization: func(_ context.Context, _ string, body []byte) ([]byte, error) {
			var in struct {
				Spec struct{ NonResourceAttributes struct{ Path string } }
			}
			err := json.Unmarshal(body, &in)
			if err != nil {
				return nil, err
			}
			return answer(map[string]any{"allowed": in.Spec.NonResourceAttributes.Path == path})
		},
	}
	f.Fuzz(func(t *testing.T, authorization, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL, r.RemoteAddr = u, "10.9.9.9:1"
		if asked(r.URL.Query(), "watch") {
			return // a stream does not end
		}
		r.Header.Set("Authorization", authorization)
		server, w := newFixture(t, Snapshot{}, func(c *Config) { c.Reviews = reviews.New(cfg) }), httptest.NewRecorder()
		cost, err := cputime.Of(func() { server.Handler().ServeHTTP(w, r) })
		if err != nil || cost > 30*time.Millisecond {
			t.Errorf("it cost %s, %v", cost, err)
		}
		if w.Code == http.StatusOK && !isHealth(u.Path) && (u.Path != path || !strings.HasSuffix(strings.TrimSpace(authorization), token)) {
			t.Errorf("%q with %q is answered: %s", target, authorization, w.Body)
		}
	})
}

// FuzzLockRequest: no request of a program on this machine that reboots it makes the server panic, costs more than 30 ms of
// a processor, or is carried out for an agent without a name.
func FuzzLockRequest(f *testing.F) {
	f.Add("true", []byte(lockBody))
	f.Add("true", []byte(`{"client_params": {"id": "", "group": "a", "ID": "`+strings.Repeat("b", maxAgentID+1)+`"}}`))
	f.Add("true", bytes.Repeat([]byte(`{"client_params":`), maxLockBody/16))
	f.Add("false", bytes.Repeat([]byte("["), maxLockBody+1))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		lock := &lockStub{}
		server, w := newFixture(t, Snapshot{}, func(c *Config) { c.FleetLock = lock }), httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+preRebootPath, bytes.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set(lockHeader, header)
		cost, err := cputime.Of(func() { server.Handler().ServeHTTP(w, r) })
		if err != nil || cost > 30*time.Millisecond {
			t.Errorf("it cost %s, %v", cost, err)
		}
		valid := header == "true" && lock.agent != "" && len(lock.agent) <= maxAgentID
		if want := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[valid]; w.Code != want {
			t.Errorf("agent %q: got %d, want %d: %s", lock.agent, w.Code, want, w.Body)
		}
	})
}
