package endpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

const (
	serviceName      = "kubernetes"
	serviceNamespace = "default"
	portName         = "https"

	// readersLabels begins the names of labels that keep kube-proxy from reading an object, such as
	// service.kubernetes.io/headless and service.kubernetes.io/service-proxy-name.
	readersLabels = "service.kubernetes.io/"

	serviceLabel    = "kubernetes.io/service-name"
	skipMirrorLabel = "endpointslice.kubernetes.io/skip-mirror"

	annotationRevision = "lockstep.dev/revision"
	annotationStore    = "lockstep.dev/store"
)

// resource is a kind of object that contains the addresses.
type resource struct {
	kind     string
	resource kube.Resource
	query    url.Values // selects the objects
	field    string     // the one with the addresses
	labels   map[string]string
	body     func(t target) map[string]any // the object without its metadata
	fields   func(o wire) (addresses []string, port int, complete bool)
}

var (
	sliceResource = &resource{
		kind: "EndpointSlice", resource: resourceOf("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
		query: url.Values{"labelSelector": {serviceLabel + "=" + serviceName}},
		field: "f:endpoints", labels: map[string]string{serviceLabel: serviceName}, body: sliceBody, fields: sliceFields,
	}
	// Without the label, a controller of Kubernetes would make a second slice of it.
	endpointsResource = &resource{
		kind: "Endpoints", resource: resourceOf("", "v1", "Endpoints", "endpoints"),
		query: url.Values{"fieldSelector": {"metadata.name=" + serviceName}},
		field: "f:subsets", labels: map[string]string{skipMirrorLabel: "true"}, body: endpointsBody, fields: endpointsFields,
	}
)

func resourceOf(group, version, kind, name string) kube.Resource {
	out := kube.Resource{Name: name, Namespaced: true, Listable: true, Watchable: true}
	out.Group, out.Version, out.Kind = group, version, kind
	return out
}

// object is an object as it was read. The zero version: it does not exist.
type object struct {
	publish.Object
	name    string
	version string // resourceVersion
	family  publish.Family
	hiding  []string // labels that keep clients from reading it
	uid     string
	held    bool      // it has finalizers, and stays when it is deleted
	since   time.Time // when it was first seen as Lockstep's, or as another client's
	lost    lost
}

// older reports whether a resourceVersion is not newer than another one.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x <= y
}

// wire contains the fields of an EndpointSlice or an Endpoints that Lockstep reads.
type wire struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		UID             string            `json:"uid"`
		Finalizers      []string          `json:"finalizers"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		ManagedFields   []struct {
			Manager  string                     `json:"manager"`
			FieldsV1 map[string]json.RawMessage `json:"fieldsV1"`
		} `json:"managedFields"`
	} `json:"metadata"`
	AddressType string      `json:"addressType"`
	Endpoints   []wireEntry `json:"endpoints"`
	Ports       []wirePort  `json:"ports"`
	Subsets     []struct {
		Addresses         []wireIP   `json:"addresses"`
		NotReadyAddresses []wireIP   `json:"notReadyAddresses"`
		Ports             []wirePort `json:"ports"`
	} `json:"subsets"`
}

type wireEntry struct {
	Addresses  []string `json:"addresses"`
	Conditions struct {
		Ready       *bool `json:"ready,omitempty"`
		Serving     *bool `json:"serving,omitempty"`
		Terminating *bool `json:"terminating,omitempty"`
	} `json:"conditions"`
	Hints json.RawMessage `json:"hints,omitempty"` // which clients use it
}

type wirePort struct {
	Name     string `json:"name"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

type wireIP struct {
	IP string `json:"ip"`
}

// decode returns an object in the form of the protocol. An object with invalid fields is not
// complete, so it is written again.
func (k *resource) decode(from *kube.Object) object {
	out := object{name: from.GetName(), version: from.GetResourceVersion()}
	raw, err := json.Marshal(from.Object)
	if err != nil {
		return out
	}
	return k.parse(raw, out)
}

func (k *resource) parse(raw []byte, out object) object {
	var w wire
	if json.Unmarshal(raw, &w) != nil {
		return out
	}
	out.name, out.version = cmp.Or(w.Metadata.Name, out.name), cmp.Or(w.Metadata.ResourceVersion, out.version)
	out.Known, out.uid, out.held = true, w.Metadata.UID, len(w.Metadata.Finalizers) > 0
	out.Addresses, out.Port, out.Complete = k.fields(w)
	slices.Sort(out.Addresses)
	out.Addresses = slices.Compact(out.Addresses)
	for _, family := range []publish.Family{publish.IPv4, publish.IPv6} {
		if w.AddressType == string(family) {
			out.family = family
		}
	}
	for name, value := range k.labels {
		out.Complete = out.Complete && w.Metadata.Labels[name] == value
	}
	for name := range w.Metadata.Labels {
		if strings.HasPrefix(name, readersLabels) {
			out.hiding, out.Complete = append(out.hiding, name), false
		}
	}
	out.Store = w.Metadata.Annotations[annotationStore]
	if revision, err := strconv.ParseInt(w.Metadata.Annotations[annotationRevision], 10, 64); err == nil && revision > 0 {
		out.Revision = revision
	}
	for _, m := range w.Metadata.ManagedFields {
		if _, has := m.FieldsV1[k.field]; has {
			out.Manager = m.Manager
		}
	}
	out.Own = out.Manager == kube.FieldManager && out.Revision > 0
	return out
}

func sliceFields(w wire) (addresses []string, port int, complete bool) {
	port, complete = portOf(w.Ports)
	for _, e := range w.Endpoints {
		addresses = append(addresses, e.Addresses...)
		is := e.Conditions
		complete = complete && is.Ready != nil && *is.Ready && (is.Serving == nil || *is.Serving) && is.Terminating == nil && e.Hints == nil
	}
	return addresses, port, complete
}

func endpointsFields(w wire) (addresses []string, port int, complete bool) {
	complete = len(w.Subsets) == 1
	for _, s := range w.Subsets {
		var named bool
		port, named = portOf(s.Ports)
		complete = complete && named && len(s.NotReadyAddresses) == 0
		for _, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
			addresses = append(addresses, a.IP)
		}
	}
	return addresses, port, complete
}

// portOf returns the port, and whether it is the only one, with kube-apiserver's name.
func portOf(ports []wirePort) (int, bool) {
	if len(ports) != 1 {
		return 0, false
	}
	return ports[0].Port, ports[0].Name == portName && ports[0].Protocol == "TCP"
}

// sliceBody returns a slice as kube-apiserver writes it too: ready, and no other condition.
func sliceBody(t target) map[string]any {
	ready := true
	entries := []wireEntry{}
	for _, address := range t.step.Addresses {
		e := wireEntry{Addresses: []string{address}}
		e.Conditions.Ready = &ready
		entries = append(entries, e)
	}
	return map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": string(t.family),
		"endpoints": entries, "ports": portsFor(t),
	}
}

func endpointsBody(t target) map[string]any {
	addresses := []wireIP{}
	for _, address := range t.step.Addresses {
		addresses = append(addresses, wireIP{address})
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Endpoints",
		"subsets": []map[string]any{{"addresses": addresses, "ports": portsFor(t)}},
	}
}

func portsFor(t target) []wirePort {
	return []wirePort{{Name: portName, Port: t.step.Port, Protocol: "TCP"}}
}

// write creates the object, or changes it if it has the version that was read. Other labels and
// annotations stay, unless they hide it. A slice of another type of addresses is deleted first: no
// slice can change its type.
func (k *resource) write(ctx context.Context, api *kube.Client, t target, store string) (object, error) {
	if t.now.version != "" && k == sliceResource && t.now.family != t.family {
		if err := k.delete(ctx, api, t.now); err != nil {
			return object{}, err
		}
		t.now = object{}
	}
	r, err := k.request(t, store)
	if err != nil {
		return object{}, err
	}
	answer, err := api.Do(ctx, r)
	if err != nil {
		return object{}, err
	}
	return k.parse(answer, object{name: t.name}), nil
}

// delete deletes an object if it has the version that was read.
func (k *resource) delete(ctx context.Context, api *kube.Client, o object) error {
	live := &kube.Object{}
	live.SetNamespace(serviceNamespace)
	live.SetName(o.name)
	live.SetUID(types.UID(o.uid))
	live.SetResourceVersion(o.version)
	if o.held {
		freed, err := api.RemoveFinalizers(ctx, k.resource, live)
		if err != nil {
			return err
		}
		live = freed
	}
	err := api.Delete(ctx, k.resource, live)
	if kube.StatusCode(err) == http.StatusNotFound { // only a finalizer had kept it
		return nil
	}
	return err
}

func (k *resource) request(t target, store string) (kube.Request, error) {
	labels := map[string]any{}
	for name, value := range k.labels {
		labels[name] = value
	}
	for _, name := range t.now.hiding {
		labels[name] = nil
	}
	metadata := map[string]any{
		"name": t.name, "namespace": serviceNamespace, "labels": labels,
		"annotations": map[string]string{annotationRevision: strconv.FormatInt(t.step.Revision, 10), annotationStore: store},
	}
	r := kube.Request{
		Verb: http.MethodPost, Path: k.resource.Path(serviceNamespace, ""), ContentType: "application/json",
		Query: url.Values{"fieldManager": {kube.FieldManager}},
	}
	if t.now.version != "" {
		metadata["resourceVersion"] = t.now.version
		r.Verb, r.Path, r.ContentType = http.MethodPatch, k.resource.Path(serviceNamespace, t.name), "application/merge-patch+json"
	}
	body := k.body(t)
	body["metadata"] = metadata
	var err error
	r.Body, err = json.Marshal(body)
	return r, err
}

// read reads one object, by a quorum read. If it does not exist, its version is empty.
func (k *resource) read(ctx context.Context, api *kube.Client, name string) (object, error) {
	answer, err := api.Get(ctx, k.resource, serviceNamespace, name)
	if kube.StatusCode(err) == http.StatusNotFound {
		return object{name: name}, nil
	}
	if err != nil {
		return object{}, fmt.Errorf("read %s %q in namespace %s: %w", k.kind, name, serviceNamespace, err)
	}
	return k.decode(answer), nil
}
