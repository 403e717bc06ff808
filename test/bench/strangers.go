package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/attack"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// strangersCases returns the case that measures the cost of clients without an identity.
func strangersCases() []benchCase {
	return []benchCase{{group: "strangers", name: "strangers", run: benchStrangers, network: true}}
}

// The bars, and how the case is measured.
const (
	strangersCPU     = 0.10 // of a processor, for all strangers together
	strangersP99     = 50 * time.Millisecond
	strangersTime    = 8 * time.Second // of each attack
	strangers        = 5000            // addresses
	strangersFirst   = 2               // networkAddress of the first load balancer
	strangersAddress = 1               // networkAddress of the sidecar
)

// benchStrangers lets strangers do at full speed all that they can do at the ports of a sidecar that
// they reach, over HTTP and over HTTPS, while load balancers probe it.
func benchStrangers(ctx context.Context, b *bench) error {
	address := networkAddress(strangersAddress)
	cert, key, err := attack.ServerFiles(b.dir, address)
	if err != nil {
		return err
	}
	target, err := attack.NewTarget(strangers)
	if err != nil {
		return err
	}
	target.HTTP, target.Join = net.JoinHostPort(address, "8086"), net.JoinHostPort(address, "8087")
	target.Etcd = []string{net.JoinHostPort(address, "8088"), net.JoinHostPort(address, "8089")}
	if err := b.attacked(ctx, "strangers-http", target, "--insecure-listen"); err != nil {
		return err
	}
	target.TLS = true
	return b.attacked(ctx, "strangers-https", target, "--tls-cert-file="+cert, "--tls-private-key-file="+key, "--client-ca-file="+cert)
}

// attacked measures one sidecar.
func (b *bench) attacked(ctx context.Context, name string, target attack.Target, flags ...string) (err error) {
	kubeconfig, err := b.unusedKubeconfig()
	if err != nil {
		return err
	}
	delay := time.Duration(0)
	s, err := b.cluster.LaunchSidecar(cluster.SidecarConfig{
		NodeID: name, Kubeconfig: kubeconfig, Listen: target.HTTP, EtcdInArgs: true, ShutdownDelay: &delay,
		Args: append([]string{
			"--etcd=embedded", "--data-dir=" + filepath.Join(b.dir, name), "--node-address=" + networkAddress(strangersAddress),
		}, flags...),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	// Its kube-apiserver does not run, so that its gate is closed.
	o := attack.Observation{PID: s.PID(), URL: "http://" + target.HTTP, Gate: http.StatusServiceUnavailable}
	if target.TLS {
		o.URL = "https://" + target.HTTP
	}
	for i := strangersFirst; i <= maxNetworkAddresses; i++ {
		o.Probes = append(o.Probes, net.ParseIP(networkAddress(i)))
	}
	starts := func(ctx context.Context) error { return errors.Join(o.Ask(ctx), listens(ctx, target.Join)) }
	if err := s.AwaitStart(patience, starts); err != nil {
		return err
	}
	if err := o.Greet(ctx); err != nil {
		return err
	}
	quiet, err := o.During(ctx, func() int { pause(ctx, strangersTime); return 0 })
	if err != nil {
		return err
	}
	for _, a := range attack.All() {
		if a.Fits(target) && ctx.Err() == nil {
			if err := b.reportAttack(ctx, a, target, o, quiet); err != nil {
				return err
			}
		}
	}
	log, err := os.ReadFile(s.LogFile())
	lost := strings.Count(string(log), "session lost")
	b.report.fact(name+": sessions lost", fmt.Sprint(lost), "0", lost == 0)
	return err
}

func (b *bench) reportAttack(ctx context.Context, a attack.Attack, target attack.Target, o attack.Observation, quiet attack.Cost) error {
	attacking, cancel := context.WithTimeout(ctx, strangersTime)
	defer cancel()
	got, err := o.During(ctx, func() int { return a.Run(attacking, target) })
	if err != nil {
		return err
	}
	cpu := got.CPU - quiet.CPU
	b.report.fact(fmt.Sprintf("strangers: %s, %.0f/s: CPU of the sidecar", a.Name, float64(got.Times)/strangersTime.Seconds()),
		showCores(cpu), "<= "+showCores(strangersCPU), cpu <= strangersCPU)
	b.report.fact(fmt.Sprintf("the same: p99 of %d health probes of others, %d not answered", got.Probes, len(got.Failed)),
		showTime(got.P99.Seconds()), "< "+short(strangersP99), got.P99 < strangersP99 && len(got.Failed) == 0)
	return nil
}

// listens reports whether a port does.
func listens(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
