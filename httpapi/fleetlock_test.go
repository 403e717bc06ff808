package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
)

// lockStub answers every agent with the same error.
type lockStub struct {
	err   error
	agent string // that asked last
}

func (l *lockStub) PreReboot(_ context.Context, agent string) error {
	l.agent = agent
	return l.err
}

func (l *lockStub) SteadyState(_ context.Context, agent string) error {
	l.agent = agent
	return l.err
}

const lockBody = `{"client_params": {"id": "35ba2101", "group": "workers.1-a"}}`

// An agent gets the answers of its protocol, and openapi.yaml describes each of them.
func TestFleetLock(t *testing.T) {
	c := loadContract(t)
	for _, tt := range []struct {
		name, method, header, body, from string
		err                              error
		code                             int
		kind                             string
	}{
		{"granted", "POST", "true", lockBody, "127.0.0.1:1", nil, 200, ""},
		{"refused", "POST", "true", lockBody, "[::1]:1", &LockRefused{"node \"cp-2\" has the turn"}, 409, `"failed_lock"`},
		{"etcd does not answer", "POST", "true", lockBody, "10.0.0.1:1", errors.New("etcd: a\nb"), 503, `"unavailable"`},
		{"other machine", "POST", "true", lockBody, "10.0.0.2:1", nil, 403, `"forbidden"`},
		{"GET", "GET", "true", lockBody, "127.0.0.1:1", nil, 405, `"method_not_allowed"`},
		{"no header", "POST", "", lockBody, "127.0.0.1:1", nil, 400, `"bad_request"`},
		{"other header", "POST", "yes", lockBody, "127.0.0.1:1", nil, 400, `"bad_request"`},
		{"no JSON", "POST", "true", "id=a", "127.0.0.1:1", nil, 400, `"bad_request"`},
		{"no ID", "POST", "true", `{"client_params": {"group": "a"}}`, "127.0.0.1:1", nil, 400, `"bad_request"`},
		{"no group", "POST", "true", `{"client_params": {"id": "a"}}`, "127.0.0.1:1", nil, 400, `"bad_request"`},
		{"bad group", "POST", "true", `{"client_params": {"id": "a", "group": "a b"}}`, "127.0.0.1:1", nil, 400, `"bad_request"`},
		{"too long", "POST", "true", `{"client_params": {"id": "` + strings.Repeat("a", maxLockBody) + `", "group": "a"}}`, "127.0.0.1:1", nil, 400, `"bad_request"`},
	} {
		for _, path := range []string{"/v1/pre-reboot", "/v1/steady-state"} {
			t.Run(tt.name+path, func(t *testing.T) {
				stub := &lockStub{err: tt.err}
				f := newFixture(t, states(t)[1].snap, func(c *Config) { c.FleetLock, c.LocalOnly = stub, true })
				own := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8086}
				r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(own)), tt.method, path, strings.NewReader(tt.body))
				r.RemoteAddr, r.Host = tt.from, "127.0.0.1:8086"
				r.Header.Set("fleet-lock-protocol", tt.header)
				w := httptest.NewRecorder()
				f.Handler().ServeHTTP(w, r)
				if w.Code != tt.code || !strings.Contains(w.Body.String(), `"kind":`+tt.kind) && tt.kind != "" {
					t.Fatalf("got %d %s, want %d %s", w.Code, w.Body, tt.code, tt.kind)
				}
				if reached := tt.code != 400 && tt.code != 403 && tt.code != 405; reached != (stub.agent == "35ba2101") {
					t.Errorf("asked for %q", stub.agent)
				}
				c.wantPostKept(t, path, w.Result())
			})
		}
	}
}

// wantPostKept reports an answer that openapi.yaml does not describe.
func (c contract) wantPostKept(t *testing.T, path string, resp *http.Response) {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
	route, params, err := c.router.FindRoute(req)
	if err != nil {
		t.Fatal(err)
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header,
		Body:    io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		t.Errorf("%d %s\n%v", resp.StatusCode, body, err)
	}
}

// Without a node to take turns for, the paths do not exist.
func TestFleetLock_none(t *testing.T) {
	f := newFixture(t, states(t)[1].snap)
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/pre-reboot", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("got %d", w.Code)
	}
}
