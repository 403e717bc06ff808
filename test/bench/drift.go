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
	rowEdited  = "somebody edits an object, until it is as it was"
	rowDeleted = "somebody deletes an object, until it is there again"
)

// driftPatience is how long a repair may take before there seems to be nobody
// who watches.
const driftPatience = 10 * time.Second

// benchDrift edits and deletes objects, each another one, under a sidecar that
// has 1,000 of them and has settled.
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
	node, err := b.startNode(ctx, cluster.SidecarConfig{NodeID: "drift", Kubeconfig: api.Kubeconfig(), Bundle: dir, EtcdPrefix: prefixOf("drift")})
	if err != nil {
		return err
	}
	if _, err := node.await(ctx, "to have made its pass", view.settled); err != nil {
		return err
	}
	keeper, err := b.startPeer("keeper", peerFlags{id: "keeper", kubeconfig: api.Kubeconfig(), objects: "bare"})
	if err != nil {
		return err
	}
	if _, err := keeper.await(ctx, saysKeeps); err != nil {
		return err
	}
	d := drifter{bench: b, url: api.URL() + "/apis/rbac.authorization.k8s.io/v1/clusterroles/", client: client}
	for i := range min(b.opts.n, 200) { // there are 400
		if err := d.both(ctx, rowEdited, 2*i, http.MethodPatch); err != nil {
			return err
		}
		if err := d.both(ctx, rowDeleted, 2*i+1, http.MethodDelete); err != nil {
			return err
		}
	}
	return errors.Join(keeper.end(syscall.SIGTERM), node.stop(), api.Stop())
}

type drifter struct {
	*bench
	url    string
	client *http.Client
}

// both disturbs an object of ours and one of the peer's.
func (d drifter) both(ctx context.Context, row string, i int, verb string) error {
	took, err := d.disturb(ctx, fmt.Sprintf("drift-%d", i), verb)
	if err != nil {
		return err
	}
	d.report.measured(row, bar{p50: 5 * time.Millisecond, p99: 25 * time.Millisecond}, []time.Duration{took})
	if took, err = d.disturb(ctx, fmt.Sprintf("bare-%d", i), verb); err != nil {
		return err
	}
	d.report.peer(row, peerKeeper, took)
	return nil
}

// disturb returns how long after the disturbance etcd has the object again with
// what was taken away. One watch sees both.
func (d drifter) disturb(ctx context.Context, name, verb string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, driftPatience)
	defer cancel()
	watch := d.etcd.Watch(ctx, registryOf("drift")+"/clusterroles/"+name, clientv3.WithCreatedNotify())
	<-watch // it stands
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
	return 0, fmt.Errorf("%s: nobody repaired it within %s", name, driftPatience)
}
