package app

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// Access is what a kubeconfig says, and what its user may do, for the commands.
type Access struct {
	Server     string
	ClientCert []byte // PEM; nil: it has none
	CA         []byte
	cfg        *rest.Config
}

// NewAccess reads a kubeconfig, and the files that it names. It sends no request.
func NewAccess(file string) (*Access, error) {
	cfg, err := restConfig(file)
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

// User returns the name and the groups in the client certificate; empty: it has none.
func (a *Access) User() (name string, groups []string) {
	block, _ := pem.Decode(a.ClientCert)
	if block == nil {
		return "", nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", nil
	}
	return cert.Subject.CommonName, cert.Subject.Organization
}

// Expiry returns when the first of the certificates in PEM content expires.
func Expiry(content []byte) (time.Time, error) {
	first, err := firstToExpire(content)
	if err != nil {
		return time.Time{}, err
	}
	return first.NotAfter, nil
}

// Needs say for what a sidecar needs rights.
type Needs struct {
	Bundle            *bundle.Bundle
	KubernetesService bool // it writes the Service kubernetes
}

// Missing returns the rights that a sidecar needs and that the user has not, a text for
// each kind of object, like "get, list configmaps". A kind that the API does not serve needs none yet.
func (a *Access) Missing(ctx context.Context, needs Needs) ([]string, error) {
	client, err := kube.New(a.cfg, "lockstep-kubeadm")
	if err != nil {
		return nil, err
	}
	defer client.CloseIdle()
	needed, err := rightsFor(ctx, client, needs.Bundle)
	if err != nil {
		return nil, err
	}
	if needs.KubernetesService {
		needed = append(needed, rightsForService()...)
	}
	var missing []kube.Right
	for _, r := range needed {
		allowed, err := client.Allows(ctx, r)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, r)
		}
	}
	return byObject(missing), nil
}

// byObject returns rights as text, with all verbs for the same objects together.
func byObject(rights []kube.Right) []string {
	var out []string
	for i, r := range rights {
		same := func(o kube.Right) bool { o.Verb = r.Verb; return o == r }
		if slices.ContainsFunc(rights[:i], same) {
			continue
		}
		for _, o := range rights[i+1:] {
			if same(o) {
				r.Verb += ", " + o.Verb
			}
		}
		out = append(out, r.String())
	}
	return out
}

// rightsFor returns the rights on the parent of the objects, on the fence, and on each kind
// of the bundle.
func rightsFor(ctx context.Context, client *kube.Client, b *bundle.Bundle) ([]kube.Right, error) {
	out := []kube.Right{{Verb: "create", Resource: "configmaps", Namespace: reconcile.ParentNamespace}}
	for _, verb := range []string{"get", "list", "watch", "update"} {
		out = append(out, kube.Right{Verb: verb, Resource: "configmaps", Namespace: reconcile.ParentNamespace, Name: reconcile.ParentName})
	}
	type kind struct{ apiVersion, name string }
	const admission = "admissionregistration.k8s.io/v1"
	kinds := []kind{{admission, "ValidatingAdmissionPolicy"}, {admission, "ValidatingAdmissionPolicyBinding"}}
	for _, o := range b.Objects {
		if k := (kind{o.GetAPIVersion(), o.GetKind()}); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		r, found, err := client.ResourceOf(ctx, k.apiVersion, k.name)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
			out = append(out, kube.Right{Verb: verb, Group: r.Group, Resource: r.Name})
		}
		out = append(out, rightsOfRoles(r)...)
	}
	return out, nil
}

// rightsOfRoles returns what a user needs to write roles with more rights than its own.
func rightsOfRoles(r kube.Resource) []kube.Right {
	switch {
	case r.Group != "rbac.authorization.k8s.io":
		return nil
	case strings.HasSuffix(r.Kind, "Binding"):
		return []kube.Right{{Verb: "bind", Group: r.Group, Resource: "clusterroles"}}
	}
	return []kube.Right{{Verb: "escalate", Group: r.Group, Resource: r.Name}}
}

// rightsForService returns what a user needs to write the Service kubernetes.
func rightsForService() []kube.Right {
	var out []kube.Right
	for _, verb := range []string{"list", "watch", "create"} {
		out = append(out, kube.Right{Verb: verb, Group: "discovery.k8s.io", Resource: "endpointslices", Namespace: "default"})
	}
	for _, verb := range []string{"get", "patch"} {
		out = append(out,
			kube.Right{Verb: verb, Group: "discovery.k8s.io", Resource: "endpointslices", Namespace: "default", Name: "kubernetes"},
			kube.Right{Verb: verb, Resource: "endpoints", Namespace: "default", Name: "kubernetes"})
	}
	return append(out, kube.Right{Verb: "create", Resource: "endpoints", Namespace: "default"})
}
