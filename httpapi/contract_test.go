package httpapi

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-chi/chi/v5"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

// contract is openapi.yaml, as something to hold answers to.
type contract struct {
	doc    *openapi3.T
	router routers.Router
}

func loadContract(t *testing.T) contract {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(description(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	doc.Servers = nil // any host
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"text/html", "text/event-stream", "application/openmetrics-text", "application/gzip"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.PlainBodyDecoder)
	}
	return contract{doc, router}
}

// wantKept reports an answer to a GET of target that openapi.yaml does not
// describe.
func (c contract) wantKept(t *testing.T, target string, resp *http.Response, body []byte) {
	t.Helper()
	if err := c.check(t.Context(), target, resp, body); err != nil {
		t.Errorf("GET %s: %d %s\n%v", target, resp.StatusCode, body, err)
	}
}

func (c contract) check(ctx context.Context, target string, resp *http.Response, body []byte) error {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	route, params, err := c.router.FindRoute(req)
	if err != nil {
		return err
	}
	return openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header,
		Body:    io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
}

// ask sends a request over a real connection, so that what net/http adds and
// leaves out is seen too.
func ask(t *testing.T, method, url string, header http.Header) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// targets ask for every path of the API, in every way that changes the answer's
// form.
func targets() []string {
	return []string{
		"/livez", "/livez?verbose", "/healthz", "/healthz?verbose",
		"/readyz", "/readyz?verbose", "/readyz?verbose&exclude=etcd&exclude=nope", "/readyz?verbose&exclude=compatible&exclude=registered&exclude=shutdown",
		"/readyz/shutdown", "/readyz/etcd", "/readyz/registered", "/readyz/compatible", "/readyz/apiserver", "/readyz/nope",
		"/leader", "/status", "/history", "/history?kind=gate&node=cp-1&since=2d", "/history?kind=nope", "/history?since=yesterday", "/debug/recording", "/version", "/openapi.yaml", "/statusz", "/flagz", "/metrics", "/",
	}
}

func TestEveryAnswerIsDescribed(t *testing.T) {
	c := loadContract(t)
	all := states(t)
	for _, st := range slices.Clone(all) {
		st.name += ", with the checks that flags add"
		st.snap.APIServer = APIServer{Enabled: true, Message: "refused"}
		st.snap.Cluster.Embedded = true
		all = append(all, st)
	}
	for _, st := range all {
		t.Run(st.name, func(t *testing.T) {
			server := httptest.NewServer(newFixture(t, st.snap).Handler())
			defer server.Close()
			for _, target := range targets() {
				resp, body := ask(t, http.MethodGet, server.URL+target, nil)
				c.wantKept(t, target, resp, body)
				wantHeaders(t, target, resp)
				wantSameHead(t, server.URL+target, resp)
			}
		})
	}
}

func wantHeaders(t *testing.T, target string, resp *http.Response) {
	t.Helper()
	if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("%s: X-Content-Type-Options: got %q", target, got)
	}
	if got := resp.Header.Get("Cache-Control"); got != "no-cache, private" {
		t.Errorf("%s: Cache-Control: got %q", target, got)
	}
	if strings.HasPrefix(target, "/readyz") && resp.ContentLength >= 10<<10 {
		t.Errorf("%s: got %d bytes, want less than 10 KiB", target, resp.ContentLength)
	}
}

// wantSameHead compares HEAD with the GET that was answered by want.
func wantSameHead(t *testing.T, url string, want *http.Response) {
	t.Helper()
	resp, body := ask(t, http.MethodHead, url, nil)
	if resp.StatusCode != want.StatusCode || len(body) != 0 {
		t.Errorf("HEAD %s: got %d and %d bytes, want %d and none", url, resp.StatusCode, len(body), want.StatusCode)
	}
	for _, name := range []string{"Content-Type", "Etag", "Cache-Control"} {
		if got := resp.Header.Get(name); got != want.Header.Get(name) {
			t.Errorf("HEAD %s: %s: got %q, want %q", url, name, got, want.Header.Get(name))
		}
	}
}

func TestOtherMethods(t *testing.T) {
	server := httptest.NewServer(newFixture(t, Snapshot{}).Handler())
	t.Cleanup(server.Close)
	c := loadContract(t)
	for _, target := range targets() {
		wantReadOnly(t, c, server.URL, target)
	}
}

func wantReadOnly(t *testing.T, c contract, base, target string) {
	t.Helper()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		resp, body := ask(t, method, base+target, nil)
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: got %d, Allow %q", method, target, resp.StatusCode, resp.Header.Get("Allow"))
		}
		wantProblem(t, resp, body)
		c.wantKept(t, target, resp, body)
	}
}

func wantProblem(t *testing.T, resp *http.Response, body []byte) {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type: got %q, want application/problem+json: %s", got, body)
	}
}

func TestUnknownPaths(t *testing.T) {
	server := httptest.NewServer(newFixture(t, Snapshot{}).Handler())
	defer server.Close()
	c := loadContract(t)
	for _, target := range []string{
		"/nope", "/readyz/", "/readyz/etcd/x", "/status/", "/status/x", "//livez", "/LIVEZ", "/readyz/%2e%2e", "/readyz/a%00b", "/healthz/etcd", "/index.html", "/ui/index.html",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			resp, body := ask(t, method, server.URL+target, nil)
			want := http.StatusNotFound
			if method == http.MethodPost && strings.HasPrefix(target, "/readyz/") && strings.Count(target, "/") == 2 && target != "/readyz/" {
				want = http.StatusMethodNotAllowed // /readyz/{check} is a path, whatever the check
			}
			if resp.StatusCode != want {
				t.Errorf("%s %s: got %d, want %d", method, target, resp.StatusCode, want)
			}
			if method == http.MethodHead {
				continue
			}
			wantProblem(t, resp, body)
			c.wantKept(t, "/livez", resp, body) // any path's default: a problem
		}
	}
}

func TestRouterAndDescriptionHaveTheSamePaths(t *testing.T) {
	c := loadContract(t)
	var routed []string
	routes := newFixture(t, Snapshot{}, func(c *Config) { c.FleetLock = &lockStub{} }).router()
	err := chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if isLock := route == preRebootPath || route == steadyStatePath; isLock != (method == http.MethodPost) || !isLock && method != http.MethodGet {
			t.Errorf("%s %s: want GET only, and POST for agents that reboot the machine", method, route)
		}
		routed = append(routed, route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A path with a server of its own is on another port: package internal/cluster/enrol answers it.
	described := slices.DeleteFunc(slices.Sorted(maps.Keys(c.doc.Paths.Map())), func(path string) bool { return c.doc.Paths.Value(path).Servers != nil })
	if slices.Sort(routed); !slices.Equal(routed, described) {
		t.Errorf("routed:    %v\ndescribed: %v", routed, described)
	}
	labels := slices.DeleteFunc(slices.Sorted(slices.Values(endpoints())), func(s string) bool { return s == "other" })
	if !slices.Equal(labels, described) {
		t.Errorf("labels of metrics: %v\ndescribed:         %v", labels, described)
	}
}

func TestDescriptionHasEveryObstacle(t *testing.T) {
	schema := loadContract(t).doc.Components.Schemas["Status"].Value.Properties["upgradeObstacles"].Value.Items.Value.Properties["reason"].Value
	var enum, want []string
	for _, v := range schema.Enum {
		enum = append(enum, v.(string))
	}
	for _, r := range upgrade.Reasons() {
		want = append(want, string(r))
		if !strings.Contains(schema.Description, "`"+string(r)+"`:") {
			t.Errorf("%s is not explained", r)
		}
	}
	if !slices.Equal(enum, want) {
		t.Errorf("got  %v\nwant %v", enum, want)
	}
}

func TestDescriptionHasEveryReason(t *testing.T) {
	schema := loadContract(t).doc.Components.Schemas["Reason"].Value
	var enum []string
	for _, v := range schema.Enum {
		enum = append(enum, v.(string))
	}
	var want []string
	for _, r := range protocol.Reasons() {
		want = append(want, string(r))
		if !strings.Contains(schema.Description, "| `"+string(r)+"` |") {
			t.Errorf("%s is not explained", r)
		}
	}
	if !slices.Equal(enum, want) {
		t.Errorf("got  %v\nwant %v", enum, want)
	}
}

// TestContractCanFail shows that the contract refuses what it should, so that
// the tests above mean something.
func TestContractCanFail(t *testing.T) {
	c := loadContract(t)
	good := get(t, newFixture(t, states(t)[1].snap).Handler(), "/status").Body.String()
	replace := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("%q is not in the report", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	bad := map[string]string{
		"an unknown reason":     replace(`"reason": "Ready"`, `"reason": "Fine"`),
		"a missing field":       replace(`"upgradeReady": false,`, ""),
		"a field too many":      replace(`"upgradeReady": false,`, `"upgradeReady": false, "more": 1,`),
		"a release with a v":    replace(`"minRelease": "0.9.0"`, `"minRelease": "v0.9.0"`),
		"a null list":           replace(`"blockers": [`, `"blockers": null, "x": [`),
		"a time without a zone": replace(`"since": "2026-03-04T05:06:07.89Z"`, `"since": "2026-03-04 05:06:07"`),
	}
	header := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-cache, private"}, "X-Content-Type-Options": {"nosniff"}}
	ok := &http.Response{StatusCode: http.StatusOK, Header: header}
	c.wantKept(t, "/status", ok, []byte(good))
	for name, body := range bad {
		if c.check(t.Context(), "/status", ok, []byte(body)) == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	plain := header.Clone()
	plain.Set("Content-Type", "text/plain; charset=utf-8")
	if c.check(t.Context(), "/readyz", &http.Response{StatusCode: 503, Header: plain}, []byte("not ready")) == nil {
		t.Error("a free-form body of /readyz was accepted")
	}
	cached := header.Clone()
	cached.Del("Cache-Control")
	if c.check(t.Context(), "/status", &http.Response{StatusCode: http.StatusOK, Header: cached}, []byte(good)) == nil {
		t.Error("an answer without Cache-Control was accepted")
	}
}
