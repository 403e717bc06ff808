package etcdtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"go.uber.org/goleak"
)

// TestOutlet: Go's own HTTP client finds its way out, each name is cut by
// itself, and Close leaves nothing behind.
func TestOutlet(t *testing.T) {
	before := goleak.IgnoreCurrent()
	targets := map[string]string{}
	for _, name := range []string{"one", "two"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, name) // the test sees what came
		}))
		defer server.Close()
		targets[name] = server.Listener.Addr().String()
	}
	o, err := StartOutlet(targets)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: o.Addr()})}
	client := &http.Client{Transport: transport, Timeout: patience}
	want := func(name, want string) {
		t.Helper()
		got := ""
		if resp, err := client.Get("http://" + name + ":2380"); err == nil {
			text, err := io.ReadAll(resp.Body)
			if got = string(text); err != nil {
				t.Error(err)
			}
			resp.Body.Close()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	want("one", "one")
	want("two", "two")
	o.To("one").Cut(Reset)
	want("one", "")
	want("two", "two")
	o.To("one").Restore()
	want("one", "one")
	want("three", "")
	if p := o.To("three"); p != nil {
		t.Errorf("got a way to %s, want none", p.target)
	}
	o.Close()
	o.Close()
	want("two", "")
	transport.CloseIdleConnections()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}
