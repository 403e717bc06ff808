package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	rowEdited  = "a client edits an object, until it is repaired"
	rowDeleted = "a client deletes an object, until it exists again"
)

// driftPatience bounds the wait for a repair.
const driftPatience = 10 * time.Second

// benchDrift edits and deletes objects, each of them once, of a sidecar that applied
// 1,000 and watches them.
func benchDrift(ctx context.Context, b *bench) error {
	api, err := b.startAPI("drift")
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(api.Config())
	if err != nil {
		return err
	}
	dir, err := b.writeBundle(bundleSpec{name: "drift", release: "1.0.0", objects: thousand("drift")})
	if err != nil {
		return err
	}
	n, err := b.startNode(ctx, cluster.SidecarConfig{NodeID: "drift", Kubeconfig: api.Kubeconfig(), Bundle: dir, EtcdPrefix: prefixOf("drift")})
	if err != nil {
		return err
	}
	if _, err := n.await(ctx, "to have made its pass", view.settled); err != nil {
		return err
	}
	var peers []*peer
	for _, who := range driftPeers {
		p, err := b.startPeer(who.program, peerFlags{id: who.program, kubeconfig: api.Kubeconfig(), objects: who.objects})
		if err != nil {
			return err
		}
		peers = append(peers, p)
		if _, err := p.await(ctx, saysKeeps); err != nil {
			return err
		}
	}
	d := drifter{bench: b, url: api.URL() + "/apis/rbac.authorization.k8s.io/v1/clusterroles/", client: client}
	for i := range min(b.opts.n, 200) { // there are 400
		if err := d.all(ctx, rowEdited, 2*i, http.MethodPatch); err != nil {
			return err
		}
		if err := d.all(ctx, rowDeleted, 2*i+1, http.MethodDelete); err != nil {
			return err
		}
	}
	for _, p := range peers {
		if err := p.end(syscall.SIGTERM); err != nil {
			return err
		}
	}
	return errors.Join(n.stop(), api.Stop())
}

// driftPeers are the peers that repair objects, with the prefixes of their objects' names.
var driftPeers = []struct{ program, name, objects string }{{"controller", peerController, "informed"}, {"keeper", peerKeeper, "bare"}}

// drifter disturbs objects through the API.
type drifter struct {
	*bench
	url    string
	client *http.Client
}

// all disturbs an object of Lockstep and one of each peer.
func (d drifter) all(ctx context.Context, name string, i int, verb string) error {
	took, err := d.disturb(ctx, fmt.Sprintf("drift-%d", i), verb)
	if err != nil {
		return err
	}
	faster := map[string]float64{peerController: 0.83} // 1.2 times as long
	want := bar{p50: 5 * time.Millisecond, p99: 25 * time.Millisecond, faster: faster}
	d.report.measured(name, want, []time.Duration{took})
	for _, who := range driftPeers {
		if took, err = d.disturb(ctx, fmt.Sprintf("%s-%d", who.objects, i), verb); err != nil {
			return err
		}
		d.report.peer(name, who.name, took)
	}
	return nil
}

// disturb edits or deletes an object, and returns how long after that etcd contains
// the whole object again. One watch sees both.
func (d drifter) disturb(ctx context.Context, name, verb string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, driftPatience)
	defer cancel()
	watch := d.etcd.Watch(ctx, registryOf("drift")+"/clusterroles/"+name, clientv3.WithCreatedNotify())
	<-watch // it is established
	body := ""
	if verb == http.MethodPatch {
		body = `{"rules":[]}`
	}
	req, err := http.NewRequestWithContext(ctx, verb, d.url+name, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := d.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		return 0, errors.Join(fmt.Errorf("%s %s: %s: %s", verb, name, resp.Status, text), err)
	}
	var begin time.Time
	for events := range watch {
		for _, e := range events.Events {
			whole := e.Type == clientv3.EventTypePut && bytes.Contains(e.Kv.Value, []byte("statefulsets"))
			switch {
			case !whole && begin.IsZero():
				begin = time.Now()
			case whole && !begin.IsZero():
				return time.Since(begin), nil
			}
		}
	}
	return 0, fmt.Errorf("%s was not repaired within %s", name, driftPatience)
}
