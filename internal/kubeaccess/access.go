package kubeaccess

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/rights"
)

// Access holds a kubeconfig, and asks for the rights of its user.
type Access struct {
	Server     string
	ClientCert []byte // PEM; nil: none
	CA         []byte
	cfg        *rest.Config
}

// RightsTimeout bounds all requests of one check of rights.
const RightsTimeout = 15 * time.Second

// New reads a kubeconfig and the files that it names. It sends no request.
func New(file string) (*Access, error) {
	cfg, err := kubeconfig.Read(file)
	if err != nil {
		return nil, err
	}
	return &Access{Server: cfg.Host, ClientCert: cfg.CertData, CA: cfg.CAData, cfg: cfg}, nil
}

// Addresses returns the IP addresses of the server.
func (a *Access) Addresses(ctx context.Context) ([]string, error) {
	u, err := url.Parse(a.Server)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", a.Server, err)
	}
	var out []string
	for _, ip := range ips {
		out = append(out, ip.IP.String())
	}
	return out, nil
}

// User returns the name and the groups in the client certificate; empty: there is no valid one.
func (a *Access) User() (name string, groups []string) {
	all, err := cert.ParseCertsPEM(a.ClientCert)
	if err != nil {
		return "", nil
	}
	return all[0].Subject.CommonName, all[0].Subject.Organization
}

// Get returns the server's answer to a GET request for a path, such as /version.
func (a *Access) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	client, err := kube.New(a.cfg, "lockstep-support")
	if err != nil {
		return nil, err
	}
	defer client.CloseIdle()
	return client.Do(ctx, kube.Request{Verb: "GET", Path: path, Query: query})
}

// Needs lists the features for which a sidecar needs rights.
type Needs struct {
	Bundles   []*bundle.Bundle // in addition to Lockstep's own objects
	Endpoints bool             // it writes the Service kubernetes
}

// Missing returns the rights that a sidecar needs and the user does not have, one text for each
// kind of object, like "get, list configmaps".
func (a *Access) Missing(ctx context.Context, needs Needs) ([]string, error) {
	client, err := kube.New(a.cfg, userAgent)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdle()
	needed := ownRights()
	for _, b := range needs.Bundles {
		ofBundle, err := rights.Of(b, resolver(ctx, client))
		if err != nil {
			return nil, err
		}
		needed = append(needed, ofBundle.Required()...)
	}
	if needs.Endpoints {
		needed = append(needed, rightsOnEndpoints()...)
	}
	missing, err := missingOf(ctx, client, needed)
	return byObject(missing), err
}

// Lacking returns the rights for a bundle that no role in a manifest grants, in the same form.
func Lacking(r rights.Rights, manifest []byte) []string {
	return byObject(r.Lacking(manifest))
}

// ErrMayNotAsk is returned by Missing if the API server does not let the user ask.
var ErrMayNotAsk = kube.ErrMayNotAsk

const userAgent = "lockstep-rights"

// Resolver returns a function that asks the server of a kubeconfig for the resource of a kind. It works
// until ctx ends.
func Resolver(ctx context.Context, file string) (rights.Resolve, error) {
	cfg, err := kubeconfig.Read(file)
	if err != nil {
		return nil, err
	}
	client, err := kube.New(cfg, userAgent)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, client.CloseIdle)
	return resolver(ctx, client), nil
}

func resolver(ctx context.Context, client *kube.Client) rights.Resolve {
	return func(apiVersion, kind string) (string, bool, error) {
		var r kube.Resource
		var found bool
		err := patiently(ctx, func() (err error) {
			r, found, err = client.ResourceOf(ctx, apiVersion, kind)
			return err
		})
		return r.Name, found, err
	}
}

// askers is the number of parallel questions about rights.
const askers = 8

// missingOf returns each right that the user does not have, once.
func missingOf(ctx context.Context, client *kube.Client, needed []kube.Right) ([]kube.Right, error) {
	allowed := make([]bool, len(needed))
	var group errgroup.Group
	group.SetLimit(askers)
	for i, right := range needed {
		group.Go(func() error {
			return patiently(ctx, func() (err error) {
				allowed[i], err = client.Allows(ctx, right)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []kube.Right
	for i, r := range needed {
		if !allowed[i] && !slices.Contains(missing, r) {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// patiently asks again after each answer that did not come in time, until ctx ends: who checks a
// node that is busy waits for what it says.
func patiently(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// byObject returns rights as text. It joins all verbs for the same objects, and then all names.
func byObject(missing []kube.Right) []string {
	verbs := joined(missing, func(r *kube.Right) *string { return &r.Verb })
	var out []string
	for _, r := range joined(verbs, func(r *kube.Right) *string { return &r.Name }) {
		out = append(out, r.String())
	}
	return out
}

// joined joins rights that differ in one field only, in the order of the first right of each group.
func joined(in []kube.Right, field func(*kube.Right) *string) []kube.Right {
	var out, without []kube.Right
	for _, r := range in {
		rest := r
		*field(&rest) = ""
		i := slices.Index(without, rest)
		if i < 0 {
			out, without = append(out, r), append(without, rest)
			continue
		}
		*field(&out[i]) += ", " + *field(&r)
	}
	return out
}

// ownRights returns the rights on the objects' parent, on the two objects of the fence, and on Events.
func ownRights() []kube.Right {
	parent := kube.Right{Resource: "configmaps", Namespace: reconcile.ParentNamespace}
	out := to(parent, "create")
	parent.Name = reconcile.ParentName
	out = append(out, to(parent, "get", "list", "watch", "update")...)
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		fence := kube.Right{Group: "admissionregistration.k8s.io", Resource: resource}
		out = append(out, to(fence, "list", "watch", "create")...)
		fence.Name = reconcile.FenceName
		out = append(out, to(fence, "get", "patch", "delete")...)
	}
	for _, namespace := range []string{"default", reconcile.ParentNamespace} {
		out = append(out, to(kube.Right{Group: "events.k8s.io", Resource: "events", Namespace: namespace}, "create", "patch")...)
	}
	return out
}

// to returns the right with each verb.
func to(right kube.Right, verbs ...string) (out []kube.Right) {
	for _, right.Verb = range verbs {
		out = append(out, right)
	}
	return out
}

// rightsOnEndpoints returns the rights to write the Service kubernetes.
func rightsOnEndpoints() []kube.Right {
	slice := kube.Right{Group: "discovery.k8s.io", Resource: "endpointslices", Namespace: "default"}
	old := kube.Right{Resource: "endpoints", Namespace: "default"}
	all := append(to(slice, "list", "watch", "create"), to(old, "create")...)
	slice.Name, old.Name = "kubernetes", "kubernetes"
	return slices.Concat(all, to(slice, "get", "patch", "delete"), to(old, "get", "patch"))
}
