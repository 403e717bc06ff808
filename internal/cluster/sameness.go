package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// This file keeps a data directory out of another cluster than its own. A restore gives the
// cluster a new ID, and keeps its CA and its addresses. So the members of the restored cluster
// answer a node whose directory is older, and only the ID shows the difference
// (docs/clusters.md#restore).

// sameCluster returns a *datadir.RefusedError if the members that answer belong to another
// cluster than the directory. A store without the cluster's record counts as the same.
func (f *flow) sameCluster(ctx context.Context) error {
	return f.compareCluster(ctx, f.client, f.marker.Cluster)
}

// compareCluster is sameCluster for the members behind a client, and the cluster with that ID.
func (f *flow) compareCluster(ctx context.Context, client *etcd.Client, own string) error {
	resp, err := client.Get(ctx, keyspace.Under(f.client.Prefix()).Cluster())
	if err != nil || len(resp.Kvs) == 0 {
		return err
	}
	answers, err := record.DecodeCluster(resp.Kvs[0].Value)
	if err != nil || answers.ID == own {
		return err
	}
	path := f.dir.Path()
	return &datadir.RefusedError{
		Path: path,
		Problem: fmt.Sprintf("is of cluster %s, and the etcd at %s is that of cluster %s, as after a restore from a snapshot: this directory is of before that",
			own, strings.Join(client.Endpoints(), ", "), answers.ID),
		Remedy: fmt.Sprintf("stop this sidecar, type `mv %s %s.old`, and start it as `sidecar cluster token create` on a node of the restored cluster prints: docs/clusters.md#restore", path, path),
	}
}

// awaitSameCluster waits, without a limit, while the members that answer belong to another
// cluster.
func awaitSameCluster(ctx context.Context, f *flow) error { return transient(f.sameCluster(ctx)) }

const (
	// othersPause is the time between two questions to the other servers.
	othersPause = 5 * time.Second
	// othersTimeout bounds the question to one of them.
	othersTimeout = time.Second
)

// watchOthers starts askOthers for this directory. stop ends it, and waits for it.
func (f *flow) watchOthers(ctx context.Context) (found *event.Value[string], stop func()) {
	found = event.New("")
	own := f.marker.Cluster
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { f.askOthers(ctx, own, found) })
	return found, func() { cancel(); asking.Wait() }
}

// askOthers asks the other servers which cluster is theirs, while this node's member of the
// cluster with that ID waits for a majority. It sets found to why the directory does not fit
// them; empty: nothing shows that. It returns when ctx ends.
func (f *flow) askOthers(ctx context.Context, own string, found *event.Value[string]) {
	for pause := startPatience; backoff.Sleep(ctx, pause); pause = othersPause {
		problem := f.otherCluster(ctx, own)
		if ctx.Err() == nil && problem != found.Get() {
			found.Set(problem)
		}
	}
}

// otherCluster makes one round of askOthers. One server of the same cluster counts more
// than any servers of another.
func (f *flow) otherCluster(ctx context.Context, own string) (problem string) {
	others := slices.DeleteFunc(f.client.Endpoints(), func(url string) bool { return url == f.shared.ownURL() })
	for _, url := range others {
		err := f.askServer(ctx, url, own)
		if err == nil {
			return ""
		}
		if refused, is := errors.AsType[*datadir.RefusedError](err); is {
			problem = refused.Error()
		}
	}
	return problem
}

func (f *flow) askServer(ctx context.Context, url, own string) error {
	client, err := f.dial(url)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	err = f.compareCluster(limited, client, own)
	return errors.Join(err, client.Close())
}
