package balancers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Proxy acts for clients of the Service kubernetes like kube-proxy on their node. It
// watches the EndpointSlices, and connects each client to one of the ready addresses. A
// connection stays when its address leaves the Service. As with kube-proxy, a change takes
// effect at once, unless there was another one in the second before.
type Proxy struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	slices dynamic.ResourceInterface

	mu        sync.Mutex          // mu guards the fields below
	seen      map[string][]string // by slice: host:port of the ready endpoints
	addresses []string            // the addresses in force
}

const (
	// minSync is kube-proxy's default for --iptables-min-sync-period, and for nftables.
	minSync = time.Second
	// watchPause is client-go's pause after the first failure.
	watchPause = 800 * time.Millisecond
	proxyPoll  = 10 * time.Millisecond
)

var sliceResource = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}

// StartProxy starts a proxy, which watches through an API. It returns when there is an address.
func StartProxy(ctx context.Context, api *rest.Config) (*Proxy, error) {
	client, err := dynamic.NewForConfig(api)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	p := &Proxy{cancel: cancel, slices: client.Resource(sliceResource).Namespace("default")}
	changed := make(chan struct{}, 1) // full: a change is due already
	p.all.Go(func() { p.observe(running, changed) })
	p.all.Go(func() { p.follow(running, changed) })
	if err := p.awaitAddress(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Stop ends the watch. Connections stay.
func (p *Proxy) Stop() {
	p.cancel()
	p.all.Wait()
}

// Dial connects to one of the addresses that are in force. Without any it refuses, as
// kube-proxy does.
func (p *Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	addresses := p.Addresses()
	if len(addresses) == 0 {
		return nil, fmt.Errorf("the Service kubernetes has no address: %w", syscall.ECONNREFUSED)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, addresses[rand.IntN(len(addresses))])
}

// Addresses returns the addresses in force, each with its port.
func (p *Proxy) Addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses
}

// observe lists the slices, and watches them from there on, until ctx ends.
func (p *Proxy) observe(ctx context.Context, changed chan<- struct{}) {
	for ctx.Err() == nil {
		if p.listAndWatch(ctx, changed) == nil {
			continue // each watch ends, when its kube-apiserver stops for example
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
		}
	}
}

func (p *Proxy) listAndWatch(ctx context.Context, changed chan<- struct{}) error {
	options := metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"}
	list, err := p.slices.List(ctx, options)
	if err != nil {
		return err
	}
	seen := map[string][]string{}
	for i := range list.Items {
		seen[list.Items[i].GetName()] = readyAddresses(&list.Items[i])
	}
	p.replace(seen, changed)
	options.ResourceVersion = list.GetResourceVersion()
	stream, err := p.slices.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer stream.Stop()
	for e := range stream.ResultChan() {
		slice, isSlice := e.Object.(*unstructured.Unstructured)
		if !isSlice || e.Type == watch.Error {
			return fmt.Errorf("watch: %v", e.Object)
		}
		seen = maps.Clone(seen)
		seen[slice.GetName()] = readyAddresses(slice)
		if e.Type == watch.Deleted {
			delete(seen, slice.GetName())
		}
		p.replace(seen, changed)
	}
	return nil
}

// replace keeps the last observation. The map must not be changed afterwards.
func (p *Proxy) replace(seen map[string][]string, changed chan<- struct{}) {
	p.mu.Lock()
	p.seen = seen
	p.mu.Unlock()
	select {
	case changed <- struct{}{}:
	default:
	}
}

// follow puts changes into force, at most one in minSync.
func (p *Proxy) follow(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		p.sync()
		select {
		case <-time.After(minSync):
		case <-ctx.Done():
			return
		}
	}
}

func (p *Proxy) sync() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses = nil
	for _, name := range slices.Sorted(maps.Keys(p.seen)) {
		p.addresses = append(p.addresses, p.seen[name]...)
	}
}

// readyAddresses returns the addresses of a slice that kube-proxy would use. An endpoint
// without conditions is ready.
func readyAddresses(slice *unstructured.Unstructured) []string {
	ports, _, _ := unstructured.NestedSlice(slice.Object, "ports")
	endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
	var out []string
	for _, port := range ports {
		number, _, _ := unstructured.NestedInt64(port.(map[string]any), "port")
		for _, e := range endpoints {
			endpoint := e.(map[string]any)
			if ready, set, _ := unstructured.NestedBool(endpoint, "conditions", "ready"); set && !ready {
				continue
			}
			addresses, _, _ := unstructured.NestedStringSlice(endpoint, "addresses")
			for _, address := range addresses {
				out = append(out, net.JoinHostPort(address, fmt.Sprint(number)))
			}
		}
	}
	return out
}

func (p *Proxy) awaitAddress(ctx context.Context) error {
	for {
		if len(p.Addresses()) > 0 {
			return nil
		}
		select {
		case <-time.After(proxyPoll):
		case <-ctx.Done():
			return fmt.Errorf("wait for an address of the Service kubernetes: %w", ctx.Err())
		}
	}
}

// AnyOf connects to the first of these addresses that accepts, like clients that know
// all kube-apiservers.
func AnyOf(addresses ...string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		var errs []error
		for _, address := range addresses {
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}
}
