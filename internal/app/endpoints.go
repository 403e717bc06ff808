package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/endpoints"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/report"
)

// This file wires and shows the publisher of the Service kubernetes
// (docs/protocol.md#kubernetes-service).

// wireService creates the publisher, if the sidecar writes the Service.
func (a *App) wireService(registry prometheus.Registerer) error {
	if !a.cfg.KubernetesService {
		endpoints.New(endpoints.Config{Registerer: registry}) // to register its documented metrics
		return nil
	}
	var err error
	if a.endpoint, err = endpointOf(a.cfg, a.kubeconfig.config.Get().Host); err != nil {
		return err
	}
	api, err := kube.New(a.kubeconfig.transport.Config(), "lockstep/"+buildinfo.Get().Version)
	if err != nil {
		return err
	}
	a.publisher = endpoints.New(endpoints.Config{
		Node: a.id.node, Own: a.endpoint, API: api, Etcd: a.etcd, Fleet: a.follower.Fleet(), Store: a.follower.Store(),
		Parent: endpoints.Parent{Namespace: reconcile.ParentNamespace, Name: reconcile.ParentName},
		Log:    a.log.With("worker", "endpoints"), Registerer: registry,
	})
	return nil
}

const apiserverAddressRemedy = "type --apiserver-address=IP, the address at which pods reach this node's kube-apiserver"

// endpointOf returns the addresses and the port at which clients reach the kube-apiserver of the
// kubeconfig.
func endpointOf(cfg Config, server string) (protocol.Endpoint, error) {
	u, err := url.Parse(server)
	if err != nil {
		return protocol.Endpoint{}, fmt.Errorf("kubeconfig %q: server %q: %w", cfg.Kubeconfig, server, err)
	}
	port := 443
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return protocol.Endpoint{}, fmt.Errorf("kubeconfig %q: server %q: %w", cfg.Kubeconfig, server, err)
		}
	}
	out := protocol.Endpoint{Port: port}
	if len(cfg.APIServerAddress) == 0 {
		if out.Address, err = ownAddress(u.Hostname()); err != nil {
			return protocol.Endpoint{}, fmt.Errorf("--kubernetes-service: the server %s of kubeconfig %q %w; %s", server, cfg.Kubeconfig, err, apiserverAddressRemedy)
		}
		return out, nil
	}
	for i, text := range cfg.APIServerAddress {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return protocol.Endpoint{}, fmt.Errorf("--apiserver-address: %w", err)
		}
		*[]*string{&out.Address, &out.Secondary}[min(i, 1)] = ip.String()
	}
	return out, nil
}

// ownAddress checks that host is an IP address of this machine that others reach, and returns it in
// the form of the Service.
func ownAddress(host string) (string, error) {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "", errors.New("is not an IP address")
	case ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast():
		return "", errors.New("is not an address that other machines reach")
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("cannot be compared with the addresses of this machine: %w", err)
	}
	if !isOneOf(addrs, net.IP(ip.AsSlice())) {
		return "", errors.New("is not an address of this machine")
	}
	return ip.Unmap().String(), nil
}

// endpointNow returns the endpoint for the presence.
func (a *App) endpointNow() protocol.Endpoint {
	out := a.endpoint
	if out.TakesPart() {
		out.Down = a.apiserverDown()
	}
	return out
}

// apiserverDown reports whether the presence shows that this node's kube-apiserver is not ready.
func (a *App) apiserverDown() bool {
	api := a.apiserverShown.Get()
	return api.Enabled && (!api.Ready || a.turnAnswers.Get().old())
}

// published reports whether this node's address may still leave the Service. The channel is closed
// when the answer may have changed; nil: it never changes.
func (a *App) published() (bool, <-chan struct{}) {
	if a.publisher == nil {
		return false, nil
	}
	state, next := a.publisher.State().Load()
	return state.MayLeave, next
}

// serviceChanged returns a channel that is closed when serviceNow changes; nil: it never changes.
func (a *App) serviceChanged() <-chan struct{} {
	if a.publisher == nil {
		return nil
	}
	return changed(a.publisher.State().Load())
}

// serviceNow returns the state of the Service, as the publisher reports it.
func (a *App) serviceNow() report.Endpoints {
	if a.publisher == nil {
		return report.Endpoints{}
	}
	return a.publisher.State().Get().Endpoints
}

// serviceWarnings returns the problems of the Service that an operator has to fix.
func (a *App) serviceWarnings() []protocol.Warning {
	if a.publisher == nil {
		return nil
	}
	s := a.serviceNow()
	switch reason := protocol.Reason(s.Reason); reason {
	case protocol.NotPublishing, protocol.OtherStore, protocol.ReconcilerRuns, protocol.OtherWriter:
		return []protocol.Warning{{Reason: reason, Message: "Service kubernetes: " + s.Message, Since: s.Since.Time}}
	case protocol.Pending, protocol.EndpointsUnread:
		if s.Problem != "" {
			return []protocol.Warning{{Reason: reason, Message: "Service kubernetes: " + cmp.Or(s.Problem, s.Message), Since: s.Since.Time}}
		}
	default:
	}
	return nil
}
