package endpoints

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

const sliceByKubeAPIServer = `{"metadata": {"name": "kubernetes", "resourceVersion": "7", "labels": {"kubernetes.io/service-name": "kubernetes"},
	"managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}, {"manager": "kube-apiserver", "fieldsV1": {"f:endpoints": {}}}]},
	"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.2"], "conditions": {"ready": true}}, {"addresses": ["10.0.0.1"], "conditions": {"ready": true}}],
	"ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}`

func TestParse(t *testing.T) {
	parse := func(text string) object { return sliceResource.parse([]byte(text), object{name: "kubernetes"}) }
	got := parse(sliceByKubeAPIServer)
	if got.Own || got.Manager != publish.KubeAPIServer || !got.Complete || got.Port != 6443 || got.version != "7" ||
		got.family != publish.IPv4 || strings.Join(got.Addresses, " ") != "10.0.0.1 10.0.0.2" || got.Revision != 0 {
		t.Errorf("got %+v", got)
	}
	ours := strings.Replace(sliceByKubeAPIServer, `"resourceVersion"`, `"annotations": {"lockstep.dev/revision": "12", "lockstep.dev/store": "s"}, "resourceVersion"`, 1)
	ours = strings.Replace(ours, `"kube-apiserver"`, `"`+kube.FieldManager+`"`, 1)
	if got := parse(ours); !got.Own || got.Revision != 12 || got.Store != "s" {
		t.Errorf("got %+v", got)
	}
	for _, manager := range []string{"kubectl", publish.KubeAPIServer} { // it has replaced what Lockstep wrote, and left its annotations
		if got := parse(strings.Replace(ours, `"`+kube.FieldManager+`"`, `"`+manager+`"`, 1)); got.Own || got.Revision != 12 || got.Manager != manager {
			t.Errorf("by %s: got %+v", manager, got)
		}
	}
	for name, broken := range map[string]string{
		"another label":     strings.Replace(ours, `"kubernetes.io/service-name": "kubernetes"`, "", 1),
		"not ready":         strings.Replace(ours, `"ready": true`, `"ready": false`, 1),
		"another port name": strings.Replace(ours, `"https"`, `"web"`, 1),
		"no ports":          strings.Replace(ours, `[{"name": "https", "port": 6443, "protocol": "TCP"}]`, "null", 1),
	} {
		if got := parse(broken); got.Complete {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	const whole = `{"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
		"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}]}`
	for text, want := range map[string]bool{whole: true, strings.Replace(whole, `"ports"`, `"notReadyAddresses": [{"ip": "10.0.0.2"}], "ports"`, 1): false} {
		if got := endpointsResource.parse([]byte(text), object{}); got.Complete != want {
			t.Errorf("%s: got %+v", text, got)
		}
	}
	for _, garbage := range []string{"", "null", "[]", `{"endpoints": 3}`, strings.Replace(ours, `"12"`, `"-3"`, 1)} {
		if got := parse(garbage); got.Own || got.name != "kubernetes" {
			t.Errorf("%s: got %+v", garbage, got)
		}
	}
}

// What the Publisher itself writes is complete when it is read.
func TestBodies(t *testing.T) {
	for _, k := range []*resource{sliceResource, endpointsResource} {
		raw := mustJSON(t, k.body(target{family: publish.IPv4, step: publish.Step{Addresses: []string{"10.0.0.1"}, Port: 6443}}))
		whole := strings.Replace(raw, "{", `{"metadata": {"labels": {"kubernetes.io/service-name": "kubernetes", "endpointslice.kubernetes.io/skip-mirror": "true"}},`, 1)
		if got := k.parse([]byte(whole), object{}); !got.Complete || got.Port != 6443 || strings.Join(got.Addresses, " ") != "10.0.0.1" {
			t.Errorf("%s: got %+v of %s", k.kind, got, whole)
		}
	}
}

// A change has the version that was read, so that it is refused if the object changed.
func TestRequest(t *testing.T) {
	step := publish.Step{Addresses: []string{"10.0.0.1"}, Port: 6443, Revision: 12}
	for version, want := range map[string]string{"": "POST", "7": "PATCH"} {
		r, err := sliceResource.request(target{name: "kubernetes", family: publish.IPv4, step: step, now: object{version: version}}, "store")
		if err != nil {
			t.Fatal(err)
		}
		var sent wire
		if err := json.Unmarshal(r.Body, &sent); err != nil {
			t.Fatal(err)
		}
		if m := sent.Metadata; r.Verb != want || m.ResourceVersion != version || m.Annotations[annotationRevision] != "12" || m.Annotations[annotationStore] != "store" {
			t.Errorf("version %q: got %s %s", version, r.Verb, r.Body)
		}
	}
}

func TestLost(t *testing.T) {
	ours := object{Object: publish.Object{Own: true, Addresses: []string{"a"}}, since: time.Now()}
	theirs := object{Object: publish.Object{Manager: publish.KubeAPIServer, Addresses: []string{"b"}}}
	once := lost{}.after(ours, theirs)
	if once.times != 1 || once.manager != publish.KubeAPIServer {
		t.Fatalf("got %+v", once)
	}
	steady := lost{times: publish.Patience}.after(ours, theirs)
	if steady.times != publish.Patience+1 {
		t.Errorf("without a pause: got %+v", steady)
	}
	if again := steady.after(ours, theirs); again != steady {
		t.Errorf("during the pause: got %+v", again)
	}
	steady.at = steady.at.Add(-2 * time.Minute)
	if again := steady.after(ours, theirs); again.times != publish.Patience+2 {
		t.Errorf("after the pause: got %+v", again)
	}
	ours.since = ours.since.Add(-time.Hour)
	if again := once.after(ours, theirs); again.times != 1 {
		t.Errorf("after a long time: got %+v", again)
	}
	if same := (lost{}).after(theirs, theirs); same.times != 0 {
		t.Errorf("not Lockstep's: got %+v", same)
	}
}

// A watch may show an object later than the answer to a write of it: the older form changes
// nothing. A list may be older, since the API may have been restored.
func TestPublisher_observesOlder(t *testing.T) {
	for _, kind := range []*resource{sliceResource, endpointsResource} {
		p := New(Config{})
		form := func(version, address string) object {
			return object{name: serviceName, version: version, Object: publish.Object{Own: true, Addresses: []string{address}}}
		}
		for _, step := range []struct {
			observe      func(*resource, object)
			version, has string
		}{{p.observe, "10", "10"}, {p.observe, "9", "10"}, {p.observe, "10", "10"}, {p.observe, "11", "11"}, {p.accept, "9", "9"}} {
			step.observe(kind, form(step.version, "10.0.0."+step.version))
			if got := p.seen.Get().object(kind, serviceName); got.version != step.has || got.Addresses[0] != "10.0.0."+step.has {
				t.Errorf("%s: after %s got %+v, want %s", kind.kind, step.version, got, step.has)
			}
		}
		if count := p.seen.Get().object(kind, serviceName).lost; count.times != 0 {
			t.Errorf("%s: got %+v, although no other client wrote", kind.kind, count)
		}
	}
}

func TestOlder(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{{"9", "10", true}, {"10", "10", true}, {"11", "10", false}, {"", "10", false}, {"10", "", false}} {
		if got := older(tc.a, tc.b); got != tc.want {
			t.Errorf("%q, %q: got %t", tc.a, tc.b, got)
		}
	}
}

// Before the Service was read, no sidecar can tell whether the address has left.
func TestPublisher_unread(t *testing.T) {
	if got := New(Config{}).State().Get(); got.Reason != string(publish.EndpointsUnread) || !got.RemovalPending {
		t.Errorf("got %+v, want %s, and that the address may still leave", got, publish.EndpointsUnread)
	}
}

// The second family has a slice of its own, whatever the first one has.
func TestPlan_families(t *testing.T) {
	r := func(id, address, secondary string) *protocol.Record {
		return &protocol.Record{
			ID: protocol.NodeID(id), Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}},
			Presence: protocol.Presence{Ready: true, Endpoint: protocol.Endpoint{Address: address, Secondary: secondary, Port: 6443}},
		}
	}
	p := New(Config{})
	for _, tc := range []struct {
		name   string
		fleet  []*protocol.Record
		exists publish.Family
		want   string
		second string // an address in the slice kubernetes-ipv6
	}{
		{"one family", []*protocol.Record{r("a", "10.0.0.1", "")}, publish.FamilyUnset, "kubernetes IPv4, kubernetes IPv4", ""},
		{"the last node of the second family has left", []*protocol.Record{r("a", "10.0.0.1", "")}, publish.IPv4, "kubernetes IPv4, kubernetes-ipv6 IPv6, kubernetes IPv4", "fd00::1"},
		{"no node, and two slices", nil, publish.IPv4, "kubernetes IPv4, kubernetes-ipv6 IPv6, kubernetes IPv4", "fd00::1"},
		{"both", []*protocol.Record{r("a", "10.0.0.1", "fd00::1")}, publish.IPv4, "kubernetes IPv4, kubernetes-ipv6 IPv6, kubernetes IPv4", ""},
		{"both, IPv6 first", []*protocol.Record{r("a", "fd00::1", "10.0.0.1")}, publish.FamilyUnset, "kubernetes IPv6, kubernetes-ipv4 IPv4, kubernetes IPv6", ""},
		{"the empty slice that a kube-apiserver left", []*protocol.Record{r("a", "fd00::1", "")}, publish.IPv4, "kubernetes-ipv6 IPv6, kubernetes IPv6", ""},
		{"no node", nil, publish.IPv6, "kubernetes IPv6, kubernetes IPv6", ""},
	} {
		seen := observed{slices: map[string]object{}}
		if tc.exists != publish.FamilyUnset {
			seen.slices[serviceName] = object{family: tc.exists, version: "1"}
		}
		if tc.second != "" {
			seen.slices[serviceName+"-ipv6"] = object{Object: publish.Object{Addresses: []string{tc.second}}, family: publish.IPv6}
		}
		var got []string
		for _, planned := range p.plan(protocol.Fleet{Records: tc.fleet}, "s", seen) {
			got = append(got, planned.name+" "+string(planned.family))
			if other := planned.kind == sliceResource && strings.Contains(planned.name, "-"); planned.second != other {
				t.Errorf("%s: %s is of a second family: got %t", tc.name, planned.name, planned.second)
			}
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: got %v, want %s", tc.name, got, tc.want)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The slice kubernetes was deleted, and is made again with the family of the second slice. That one is emptied once the new
// one has addresses, and never by another writer's will.
func TestPlan_formerSlice(t *testing.T) {
	a := &protocol.Record{
		ID: "a", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}, Serves: true},
		Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, Endpoint: protocol.Endpoint{Address: "fd00::1", Secondary: "10.0.0.1", Port: 6443}},
	}
	p := New(Config{})
	slice := func(family publish.Family, addresses ...string) object {
		return object{version: "1", family: family, Object: publish.Object{Addresses: addresses, Port: 6443, Own: true, Store: "s", Revision: 3, Complete: true}}
	}
	foreign := slice(publish.IPv6, "fd00::1", "fd00::9")
	foreign.Own = false
	for name, tc := range map[string]struct {
		kubernetes, second object
		want               publish.Kind // of the step for the second slice
		planned            bool
	}{
		"deleted":             {object{}, slice(publish.IPv6, "fd00::1", "fd00::9"), publish.Keep, false},
		"made again":          {slice(publish.IPv6, "fd00::1"), slice(publish.IPv6, "fd00::1", "fd00::9"), publish.Write, true},
		"emptied":             {slice(publish.IPv6, "fd00::1"), slice(publish.IPv6), publish.Keep, false},
		"of another writer":   {slice(publish.IPv6, "fd00::1"), foreign, publish.Keep, true},
		"with the old family": {slice(publish.IPv4, "10.0.0.1"), slice(publish.IPv6, "fd00::1", "fd00::9"), publish.Write, true},
	} {
		seen := observed{slicesKnown: true, endpointsKnown: true, slices: map[string]object{serviceName + "-ipv6": tc.second}}
		if tc.kubernetes.version != "" {
			seen.slices[serviceName] = tc.kubernetes
		}
		planned := false
		for _, step := range p.plan(protocol.Fleet{Revision: 5, Records: []*protocol.Record{a}}, "s", seen) {
			if step.name != serviceName+"-ipv6" {
				continue
			}
			planned = true
			addresses := strings.Join(step.step.Addresses, " ")
			if step.step.Kind != tc.want || step.family != publish.IPv6 || addresses != "" && tc.kubernetes.family == publish.IPv6 {
				t.Errorf("%s: got %+v", name, step)
			}
		}
		if planned != tc.planned {
			t.Errorf("%s: planned %t", name, planned)
		}
	}
}
