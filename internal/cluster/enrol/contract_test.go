package enrol

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/test/members"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// contract is the part of openapi.yaml about the join port.
type contract struct {
	route *routers.Route
}

func loadContract(t *testing.T) contract {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	item := doc.Paths.Value(Path)
	if item == nil || item.Post == nil {
		t.Fatalf("openapi.yaml has no POST %s", Path)
	}
	return contract{&routers.Route{Spec: doc, Path: Path, PathItem: item, Method: http.MethodPost, Operation: item.Post}}
}

func (c contract) input(body string) *openapi3filter.RequestValidationInput {
	req := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	return &openapi3filter.RequestValidationInput{
		Request: req, Route: c.route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
}

// checkAnswer returns how an answer differs from the description.
func (c contract) checkAnswer(t *testing.T, resp *http.Response, body string) error {
	t.Helper()
	return openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: c.input(""),
		Status:                 resp.StatusCode, Header: resp.Header, Body: io.NopCloser(strings.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
}

// TestEveryAnswerIsDescribed causes every status that the join port answers, and holds
// each answer to openapi.yaml.
func TestEveryAnswerIsDescribed(t *testing.T) {
	c := loadContract(t)
	r := newRig(t, nil)
	encode := func(req Request) []byte {
		t.Helper()
		body, err := req.encode()
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	tok := r.token(1, time.Hour)
	joins := r.request("b", tok)
	valid := encode(joins)
	if err := openapi3filter.ValidateRequest(t.Context(), c.input(string(valid))); err != nil {
		t.Errorf("the request is not as described: %v", err)
	}
	change := func(f func(*Request)) []byte {
		req := r.request("c", r.token(1, time.Hour))
		f(&req)
		return encode(req)
	}
	var seen []int
	ask := func(method, path string, body []byte, status int) {
		t.Helper()
		resp, text := r.send(method, path, body)
		if resp.StatusCode != status {
			t.Errorf("%s %s: got %s: %s, want %d", method, path, resp.Status, text, status)
		}
		if err := c.checkAnswer(t, resp, text); err != nil {
			t.Errorf("%s %s: %s %s\n%v", method, path, resp.Status, text, err)
		}
		later := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
		if got := resp.Header.Get("Retry-After"); (got != "") != later {
			t.Errorf("%d: Retry-After: got %q", status, got)
		}
		seen = append(seen, status)
	}
	ask(http.MethodPost, "/", valid, http.StatusNotFound)
	ask(http.MethodGet, Path, nil, http.StatusMethodNotAllowed)
	ask(http.MethodPost, Path, []byte("x"), http.StatusBadRequest)
	ask(http.MethodPost, Path, bytes.Replace(valid, []byte(`"b"`), []byte(`"`+strings.Repeat("b", maxBody)+`"`), 1), http.StatusRequestEntityTooLarge)
	ask(http.MethodPost, Path, change(func(q *Request) { q.Token.Secret[0] ^= 1 }), http.StatusUnauthorized)
	ask(http.MethodPost, Path, change(func(q *Request) { q.Node = "a" }), http.StatusConflict)
	ask(http.MethodPost, Path, valid, http.StatusOK)
	ask(http.MethodPost, Path, valid, http.StatusOK)
	ask(http.MethodPost, Path, change(func(q *Request) { q.Token = tok }), http.StatusForbidden)

	presence := clientv3.OpPut(keyspace.Under(members.Prefix).Presence("c"), "")
	if _, err := r.client.Txn(t.Context(), nil, []clientv3.Op{presence}, nil); err != nil {
		t.Fatal(err)
	}
	ask(http.MethodPost, Path, change(func(*Request) {}), http.StatusServiceUnavailable)

	r.url = r.serve(func(c *Config) { c.Limits = Limits{PerAddress: 1e-9, InAll: 1e6, Burst: 1} })
	joins.Token.Secret[0] ^= 1
	ask(http.MethodPost, Path, encode(joins), http.StatusUnauthorized)
	ask(http.MethodPost, Path, encode(joins), http.StatusTooManyRequests)

	for _, code := range []int{401, 403, 409, 429, 503} {
		if c.route.Operation.Responses.Status(code) == nil || !slices.Contains(seen, code) {
			t.Errorf("%d is not both described and seen", code)
		}
	}
}

// TestContractCanFail shows that the description rejects wrong answers.
func TestContractCanFail(t *testing.T) {
	c := loadContract(t)
	r := newRig(t, nil)
	body, err := r.request("b", r.token(1, time.Hour)).encode()
	if err != nil {
		t.Fatal(err)
	}
	resp, good := r.send(http.MethodPost, Path, body)
	if err := c.checkAnswer(t, resp, good); err != nil {
		t.Fatal(err)
	}
	for name, changed := range map[string]string{
		"a missing field":  strings.Replace(good, `"memberID":`, `"member":`, 1),
		"a field too many": strings.Replace(good, `{`, `{"more":1,`, 1),
		"a null list":      good[:strings.Index(good, `"members":`)] + `"members":null}`,
	} {
		if c.checkAnswer(t, resp, changed) == nil {
			t.Errorf("%s was accepted: %s", name, changed)
		}
	}
	cached := resp.Header.Clone()
	cached.Set("Cache-Control", "no-cache, private")
	if c.checkAnswer(t, &http.Response{StatusCode: http.StatusOK, Header: cached}, good) == nil {
		t.Error("an answer with the CA's key that may be stored was accepted")
	}
	if openapi3filter.ValidateRequest(t.Context(), c.input(strings.Replace(string(body), `"node":`, `"name":`, 1))) == nil {
		t.Error("a request without a node was accepted")
	}
}
