package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const copyPrefix = "/copy/"

// copied is about a store that was copied, as by a restore beside the etcd that still runs: a sidecar of the copy leads too, for
// the same store. Then its lease ends again and again, and another client writes its Service kubernetes.
func (p *planes) copied(store, kubeconfig string) {
	p.Helper()
	keys := keyspace.Under(copyPrefix)
	served, err := status.Encode(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}}, time.Now())
	p.must(err)
	_, err = p.etcd().Put(p.Context(), keys.Status(), string(served))
	p.must(err)
	original, err := p.etcd().Get(p.Context(), keyspace.Under(otherPrefix).Store())
	p.must(err)
	_, err = p.etcd().Put(p.Context(), keys.Store(), string(original.Kvs[0].Value))
	p.must(err)
	p.begin("c-1", p.bundle("c-1", one), kubeconfigOf(kubeconfig), func(c *cluster.SidecarConfig) {
		c.EtcdPrefix, c.Args = copyPrefix, append(c.Args, "--kubernetes-service", "--apiserver-address="+ofDocumentation+"1")
	})
	p.appears("c-1")
	p.prom.Fires(store, "TwoLeaders")
	p.leaseEnds(keys)
	p.overwrites()
	p.prom.Fires(store, "LeadersLost", "EndpointsOverwritten")
	p.must(p.sidecars["c-1"].Kill())
}

// ofDocumentation begins addresses to which no request goes.
const ofDocumentation = "192.0.2."

var lostThrice = regexp.MustCompile(`lockstep_election_ended_total\{reason="Lost"\} ([3-9]|\d\d)`)

// leaseEnds ends the lease of the leader again and again, as etcd does to one that does not confirm it in time. A leadership
// that ends before it was confirmed does not count.
func (p *planes) leaseEnds(keys keyspace.Keys) {
	p.Helper()
	client := p.etcd()
	cluster.Await(p.T, "three lost leaderships", func(ctx context.Context) error {
		_, metrics, err := p.sidecars["c-1"].Get(ctx, "/metrics")
		if err != nil || lostThrice.MatchString(metrics) {
			return err
		}
		if err := statusHas(p.sidecars["c-1"], `"state": "leading"`)(ctx); err != nil {
			return err
		}
		candidates, err := client.Get(ctx, keys.Leaders(), clientv3.WithPrefix())
		if err == nil && len(candidates.Kvs) == 1 {
			_, err = client.Revoke(ctx, clientv3.LeaseID(candidates.Kvs[0].Lease))
		}
		return errors.Join(err, errors.New("fewer"))
	})
}

// overwrites lets another client write both objects of the Service kubernetes, each twice.
func (p *planes) overwrites() {
	p.Helper()
	const right, wrong = ofDocumentation + "1", ofDocumentation + "9"
	for kind, patch := range map[string]string{
		"endpointslices": `[{"op": "replace", "path": "/endpoints/0/addresses/0", "value": "%s"}]`,
		"endpoints":      `[{"op": "replace", "path": "/subsets/0/addresses/0/ip", "value": "%s"}]`,
	} {
		published := func(context.Context) error {
			out, err := p.tryKubectl("", "get", kind, "kubernetes", "-o=yaml")
			if err == nil && (!strings.Contains(out, right) || strings.Contains(out, wrong)) {
				err = fmt.Errorf("got %s", out)
			}
			return err
		}
		for range 2 {
			cluster.Await(p.T, "the address of the node in "+kind, published)
			p.kubectl("", "patch", kind, "kubernetes", "--field-manager=cloud-op", "--type=json", "-p", fmt.Sprintf(patch, wrong))
		}
		cluster.Await(p.T, "the repair of "+kind, published)
	}
}
