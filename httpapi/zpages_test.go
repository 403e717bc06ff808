package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Programs read the z-pages like the ones of Kubernetes components: the same Accept, the same fields.
func TestZpages_structured(t *testing.T) {
	c := loadContract(t)
	server := httptest.NewServer(newFixture(t, states(t)[1].snap, func(c *Config) {
		c.Flags = []Flag{{"node-id", "cp-1"}}
		c.Build.Version = "0.1.0"
	}).Handler())
	t.Cleanup(server.Close)
	for target, want := range map[string]string{"/statusz": "Statusz 0.1.0 ", "/flagz": "Flagz  cp-1"} {
		kind, _, _ := strings.Cut(want, " ")
		for _, media := range []string{"application/json", "application/yaml"} {
			accept := media + ";v=v1beta1;g=config.k8s.io;as=" + kind
			resp, body := ask(t, http.MethodGet, server.URL+target, http.Header{"Accept": {accept}})
			c.wantKept(t, target, resp, body)
			var got struct {
				Kind, APIVersion, BinaryVersion string
				Flags                           map[string]string
			}
			decode := json.Unmarshal
			if media == "application/yaml" {
				decode = func(text []byte, to any) error { return yaml.Unmarshal(text, to) }
			}
			if err := decode(body, &got); err != nil {
				t.Fatal(err)
			}
			if is := got.Kind + " " + got.BinaryVersion + " " + got.Flags["node-id"]; is != want || got.APIVersion != "config.k8s.io/v1beta1" || resp.Header.Get("Content-Type") != media {
				t.Errorf("%s as %s: got %q of %s, want %q\n%s", target, media, is, resp.Header.Get("Content-Type"), want, body)
			}
		}
		for accept, code := range map[string]int{
			"application/json": 406, "application/json;v=v1;g=config.k8s.io;as=" + kind: 406, "application/json;v=v1beta1;g=config.k8s.io;as=Other": 406,
			"text/plain": 200, "application/json;v=v1beta1;g=config.k8s.io;as=" + kind + ";q=0, text/plain": 200,
		} {
			if resp, _ := ask(t, http.MethodGet, server.URL+target, http.Header{"Accept": {accept}}); resp.StatusCode != code {
				t.Errorf("%s as %s: got %d, want %d", target, accept, resp.StatusCode, code)
			}
		}
	}
}

// The metrics of the etcd member are passed on, one request at a time, and the answer names a failure.
func TestMemberMetrics(t *testing.T) {
	c := loadContract(t)
	reading, text := make(chan struct{}), make(chan error)
	server := httptest.NewServer(newFixture(t, states(t)[1].snap, func(c *Config) {
		c.MemberMetrics = func(context.Context) ([]byte, error) {
			reading <- struct{}{}
			return []byte("etcd_server_has_leader 1\n"), <-text
		}
	}).Handler())
	t.Cleanup(server.Close)
	for fails, code := range map[error]int{nil: 200, errors.New("the member has stopped"): 503} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, body := ask(t, http.MethodGet, server.URL+"/metrics/etcd", nil)
			c.wantKept(t, "/metrics/etcd", resp, body)
			if resp.StatusCode != code || fails == nil && string(body) != "etcd_server_has_leader 1\n" || fails != nil && !strings.Contains(string(body), fails.Error()) {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
		}()
		<-reading
		if resp, body := ask(t, http.MethodGet, server.URL+"/metrics/etcd", nil); resp.StatusCode != 503 || !strings.Contains(string(body), "by another client") {
			t.Errorf("got %d %s", resp.StatusCode, body)
		}
		text <- fails
		<-done
	}
}

// Profiles are there only if people want them, and for those that may read the rest.
func TestProfiles(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := newFixture(t, states(t)[1].snap, func(c *Config) { c.Profiling, c.LocalOnly = on, true })
		for target, want := range map[string][2]int{"/debug/pprof/heap": {404, 200}, "/debug/pprof/nope": {404, 404}, "/debug/pprof/cmdline": {404, 404}} {
			if code := f.answer(t, target, "127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:8086", false); code != want[map[bool]int{true: 1}[on]] {
				t.Errorf("%s, profiling %t: got %d", target, on, code)
			}
			if code := f.answer(t, target, "10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:8086", false); on && code != http.StatusForbidden {
				t.Errorf("%s from another machine: got %d", target, code)
			}
		}
	}
}
