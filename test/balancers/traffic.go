package balancers

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Ways are the ways in which clients reach a kube-apiserver.
var Ways = [2]string{"HAProxy", "the Service"}

// statsPort is the port at which HAProxy reports its servers, at its own address.
const statsPort = "8404"

// statsTimeout bounds one question to HAProxy.
const statsTimeout = 10 * time.Second

// TrafficConfig configures clients that use both ways at once.
type TrafficConfig struct {
	Page    string // docs/load-balancers.md, which contains the configuration of HAProxy
	HAProxy string // its IP
	Service string // the IP to which clients of the Service connect; no machine uses it
	// Keep, New, Watches and Pause are as in ClientsConfig, for each way.
	Keep, New, Watches int
	Pause              time.Duration
	// Watch connects the Proxy that follows the Service; nil: through HAProxy, as kubeadm configures
	// kube-proxy.
	Watch func(ctx context.Context, network, address string) (net.Conn, error)
}

// Traffic is clients of a fleet that use both ways.
type Traffic struct {
	Clients [2]*Clients // by Ways
	Proxy   *Proxy      // connects the clients of the Service

	haproxy *Program
	stats   string // address of HAProxy's answers
}

// StartTraffic starts HAProxy, the Proxy that follows the Service, and the clients of both.
func (f *Fleet) StartTraffic(ctx context.Context, cfg TrafficConfig) (t *Traffic, err error) {
	t = &Traffic{stats: net.JoinHostPort(cfg.HAProxy, statsPort)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Stop())
		}
	}()
	bind := net.JoinHostPort(cfg.HAProxy, apiPort)
	config, err := f.haproxyConfig(cfg.Page, bind)
	if err != nil {
		return t, err
	}
	if t.haproxy, err = StartHAProxy(f.dir, "global\n    stats socket ipv4@"+t.stats+"\n\n"+config, bind); err != nil {
		return t, err
	}
	api := f.cluster.APIConfig("https://" + bind)
	watch := rest.CopyConfig(api)
	watch.Dial = cfg.Watch
	if t.Proxy, err = StartProxy(ctx, watch); err != nil {
		return t, err
	}
	service := f.cluster.APIConfig("https://" + net.JoinHostPort(cfg.Service, apiPort))
	for way, c := range []ClientsConfig{{API: api}, {API: service, Dial: t.Proxy.Dial}} {
		c.Name, c.Keep, c.New, c.Watches, c.Pause = fmt.Sprintf("traffic-%d", way), cfg.Keep, cfg.New, cfg.Watches, cfg.Pause
		if t.Clients[way], err = StartClients(c); err != nil {
			return t, err
		}
	}
	return t, nil
}

// haproxyConfig is the configuration of the page. Without Lockstep, HAProxy checks
// the kube-apiserver itself.
func (f *Fleet) haproxyConfig(page, bind string) (string, error) {
	replacements := []string{"bind :6443", "bind " + bind}
	for i, n := range f.Nodes {
		replacements = append(replacements, fmt.Sprintf("10.0.0.%d:6443", 1+i), net.JoinHostPort(n.Address, apiPort))
	}
	if f.without {
		replacements = append(replacements, "check port 8086", "check check-ssl verify none")
	}
	return Block(page, "haproxy", replacements...)
}

// Stop stops the clients, the Proxy that follows the Service, and HAProxy.
func (t *Traffic) Stop() error {
	for _, c := range t.Clients {
		if c != nil {
			c.Stop()
		}
	}
	if t.Proxy != nil {
		t.Proxy.Stop()
	}
	if t.haproxy != nil {
		return t.haproxy.Stop()
	}
	return nil
}

// SetPause changes the pause between two requests of each client.
func (t *Traffic) SetPause(d time.Duration) {
	for _, c := range t.Clients {
		c.SetPause(d)
	}
}

// HAProxyLog returns the output of HAProxy.
func (t *Traffic) HAProxyLog() string { return t.haproxy.Log() }

// Begin begins a phase: it returns the results of the clients until now, and keeps the first
// errors from now on.
func (t *Traffic) Begin() (seen [2]Counts) {
	for way, c := range t.Clients {
		seen[way] = c.Begin()
	}
	return seen
}

// Since returns the results of the clients after before.
func (t *Traffic) Since(before [2]Counts) (seen [2]Counts) {
	for way, c := range t.Clients {
		seen[way] = c.Counts().Since(before[way])
	}
	return seen
}

// More returns when n more requests ended in each way.
func (t *Traffic) More(ctx context.Context, n int) error {
	before := t.Since([2]Counts{})
	return t.poll(ctx, func() error {
		for way, now := range t.Since(before) {
			if now.Requests < n {
				return fmt.Errorf("%d requests of clients of %s, want %d", now.Requests, Ways[way], n)
			}
		}
		return nil
	})
}

// AwaitNodes returns when HAProxy and the Service both lead to these nodes, and to no others.
func (t *Traffic) AwaitNodes(ctx context.Context, nodes ...*Node) error {
	var ids, addresses []string
	for _, n := range nodes {
		ids, addresses = append(ids, n.ID), append(addresses, net.JoinHostPort(n.Address, apiPort))
	}
	slices.Sort(ids)
	slices.Sort(addresses)
	return t.poll(ctx, func() error {
		up, err := t.up()
		if err != nil {
			return err
		}
		inService := slices.Sorted(slices.Values(t.Proxy.Addresses()))
		if !slices.Equal(up, ids) || !slices.Equal(inService, addresses) {
			return fmt.Errorf("HAProxy leads to %v, and the Service to %v, want %v", up, inService, ids)
		}
		return nil
	})
}

// AwaitSuccess returns when n requests in a row succeeded in each way.
func (t *Traffic) AwaitSuccess(ctx context.Context, n int) error {
	before := t.Since([2]Counts{})
	return t.poll(ctx, func() error {
		var err error
		for way, now := range t.Since(before) {
			switch {
			case now.Failed > 0:
				before[way] = t.Clients[way].Counts()
				err = fmt.Errorf("requests of clients of %s fail: %v", Ways[way], now.Errors)
			case now.Requests < n:
				err = fmt.Errorf("%d requests of clients of %s, want %d", now.Requests, Ways[way], n)
			}
		}
		return err
	})
}

func (t *Traffic) poll(ctx context.Context, cond func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return cluster.Poll(ctx, func(context.Context) error { return cond() })
}

// up returns the nodes to which HAProxy sends clients, sorted. It asks HAProxy.
func (t *Traffic) up() ([]string, error) {
	conn, err := net.DialTimeout("tcp", t.stats, statsTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(statsTimeout)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(conn, "show stat -1 4 -1"); err != nil { // 4: servers
		return nil, err
	}
	lines, err := csv.NewReader(conn).ReadAll() // HAProxy ends the connection
	if err != nil || len(lines) == 0 {
		return nil, fmt.Errorf("ask HAProxy for its servers: %w", err)
	}
	name, status := slices.Index(lines[0], "svname"), slices.Index(lines[0], "status")
	if name < 0 || status < 0 {
		return nil, fmt.Errorf("HAProxy answers with the columns %q", lines[0])
	}
	var out []string
	for _, line := range lines[1:] {
		if strings.HasPrefix(line[status], "UP") {
			out = append(out, line[name])
		}
	}
	slices.Sort(out)
	return out, nil
}
