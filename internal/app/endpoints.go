package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/endpoints"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
)

// This file wires the publisher of the Service kubernetes
// (docs/protocol-endpoints.md#kubernetes-service).

// wireEndpoints creates the publisher, if the sidecar writes the Service.
func (a *App) wireEndpoints() error {
	if !a.cfg.KubernetesService {
		endpoints.New(endpoints.Config{Registerer: a.registry}) // to register its documented metrics
		return nil
	}
	var err error
	if a.endpoint, err = endpointOf(a.cfg, a.kubeconfig.Config().Get().Host); err != nil {
		return err
	}
	api := a.kubeconfig.Transport().Client(buildinfo.UserAgent())
	a.publisher = endpoints.New(endpoints.Config{
		Node: a.id.node, Own: a.endpoint, API: api, Etcd: a.etcd, Fleet: a.follower.Fleet(), Store: a.follower.Store(),
		Parent: endpoints.Parent{Namespace: reconcile.ParentNamespace, Name: reconcile.ParentName},
		Log:    a.log.With("worker", "endpoints"), Registerer: a.registry,
	})
	return nil
}

const apiserverAddressRemedy = "type --apiserver-address=IP, the address at which pods reach this node's kube-apiserver"

// endpointOf returns the addresses and the port at which clients reach the kube-apiserver of the
// kubeconfig.
func endpointOf(cfg Config, server string) (protocol.Endpoint, error) {
	var out protocol.Endpoint
	u, err := url.Parse(server)
	if err == nil {
		out.Port, err = strconv.Atoi(cmp.Or(u.Port(), "443"))
	}
	if err != nil {
		return protocol.Endpoint{}, fmt.Errorf("kubeconfig %q: server %q: %w", cfg.Kubeconfig, server, err)
	}
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
	switch own, err := nodeaddress.IsOwn(net.IP(ip.AsSlice())); {
	case err != nil:
		return "", fmt.Errorf("cannot be compared with the addresses of this machine: %w", err)
	case !own:
		return "", errors.New("is not an address of this machine")
	}
	return ip.Unmap().String(), nil
}

// published reports whether this node's address may still leave the Service. The channel is closed
// when the answer may have changed; nil: it never changes.
func (a *App) published() (bool, <-chan struct{}) {
	if a.publisher == nil {
		return false, nil
	}
	state, next := a.publisher.State().Load()
	return state.RemovalPending, next
}
