package endpoints

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// A slice can have the right addresses, and still no client reads it, or only some do. Such a slice is written again,
// and loses the labels that hide it.
func TestParse_hidden(t *testing.T) {
	const label = `"labels": {`
	for name, text := range map[string]string{
		"headless":      strings.Replace(sliceByKubeAPIServer, label, label+`"service.kubernetes.io/headless": "", `, 1),
		"another proxy": strings.Replace(sliceByKubeAPIServer, label, label+`"service.kubernetes.io/service-proxy-name": "x", `, 1),
		"not serving":   strings.Replace(sliceByKubeAPIServer, `"ready": true`, `"ready": true, "serving": false`, 1),
		"with hints":    strings.Replace(sliceByKubeAPIServer, `"conditions"`, `"hints": {"forZones": [{"name": "x"}]}, "conditions"`, 1),
	} {
		got := sliceResource.parse([]byte(text), object{})
		if got.Complete {
			t.Errorf("%s: it is complete", name)
		}
		r, err := sliceResource.request(target{name: "kubernetes", family: publish.IPv4, now: got}, "s")
		if err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Metadata struct{ Labels map[string]*string }
		}
		if err := json.Unmarshal(r.Body, &sent); err != nil {
			t.Fatal(err)
		}
		labels := sent.Metadata.Labels
		for _, hiding := range got.hiding {
			if value, removed := labels[hiding]; !removed || value != nil {
				t.Errorf("%s: %s stays: %s", name, hiding, r.Body)
			}
		}
		if value := labels[serviceLabel]; value == nil || *value != serviceName || len(labels) != 1+len(got.hiding) {
			t.Errorf("%s: got %s", name, r.Body)
		}
	}
	for name, same := range map[string]string{
		"another label": strings.Replace(sliceByKubeAPIServer, label, label+`"example.com/x": "", `, 1),
		"serving":       strings.Replace(sliceByKubeAPIServer, `"ready": true`, `"ready": true, "serving": true`, 1),
	} {
		if got := sliceResource.parse([]byte(same), object{}); !got.Complete || len(got.hiding) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// sentAPI accepts all requests, and keeps them.
type sentAPI struct{ sent []string }

func (a *sentAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.sent = append(a.sent, fmt.Sprint(r.Method, " ", r.URL.Path, " ", string(body)))
	answer := `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "kubernetes", "namespace": "default", "uid": "u", "resourceVersion": "8"}}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// No slice can change the type of its addresses. One that a client created with another type is replaced, also if a
// finalizer would keep it.
func TestWrite_otherType(t *testing.T) {
	names := strings.Replace(sliceByKubeAPIServer, `"IPv4"`, `"FQDN"`, 1)
	names = strings.Replace(names, `"metadata": {`, `"metadata": {"uid": "u", `, 1)
	held := strings.Replace(names, `"metadata": {`, `"metadata": {"finalizers": ["example.com/x"], `, 1)
	for _, tc := range []struct {
		name, text, want, version string
	}{
		{"the same type", sliceByKubeAPIServer, "PATCH", ""},
		{"another type", names, "DELETE POST", "7"},
		{"with a finalizer", held, "PATCH DELETE POST", "8"},
	} {
		api := &sentAPI{}
		client, err := kube.New(&rest.Config{Host: "http://api", Transport: api}, "test")
		if err != nil {
			t.Fatal(err)
		}
		to := target{name: serviceName, family: publish.IPv4, now: sliceResource.parse([]byte(tc.text), object{}), step: publish.Step{Addresses: []string{"10.0.0.1"}, Port: 6443}}
		if _, err := sliceResource.write(t.Context(), client, to, "s"); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		var verbs []string
		for _, r := range api.sent {
			verb, rest, _ := strings.Cut(r, " ")
			verbs = append(verbs, verb)
			if verb == "DELETE" && (!strings.Contains(rest, `"uid":"u"`) || !strings.Contains(rest, `"resourceVersion":"`+tc.version+`"`)) {
				t.Errorf("%s: another object may be deleted: %s", tc.name, rest)
			}
			if verb == "POST" && strings.Contains(rest, "resourceVersion") {
				t.Errorf("%s: got %s", tc.name, rest)
			}
		}
		if !slices.Equal(verbs, strings.Fields(tc.want)) {
			t.Errorf("%s: got %q, want %s", tc.name, api.sent, tc.want)
		}
	}
}

// Slices that others create for the Service are not remembered, however many there are.
func TestPublisher_otherSlices(t *testing.T) {
	p := New(Config{})
	named := func(name string) *kube.Object {
		out := &kube.Object{Object: map[string]any{"endpoints": []any{map[string]any{"addresses": []any{"10.0.0.9"}}}}}
		out.SetName(name)
		out.SetResourceVersion("7")
		return out
	}
	p.replace(sliceResource, kube.List{Objects: []*kube.Object{named("kubernetes"), named("kubernetes-ipv6"), named("other")}})
	p.observe(sliceResource, sliceResource.decode(named("kubernetes-x")))
	p.observe(sliceResource, sliceResource.decode(named("kubernetes-ipv4")))
	var got []string
	for name := range p.seen.Get().slices {
		got = append(got, name)
	}
	slices.Sort(got)
	if want := []string{"kubernetes", "kubernetes-ipv4", "kubernetes-ipv6"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
