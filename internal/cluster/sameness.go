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

// sameness asks the servers of etcd whether they are of the cluster of this node's directory.
type sameness struct {
	*resident
	cfg    *Embedded
	client *etcd.Client
	shared *sharer
}

// check returns a *datadir.RefusedError if the members that answer belong to another
// cluster than the directory. A store without the cluster's record counts as the same.
func (s *sameness) check(ctx context.Context) error {
	return s.compare(ctx, s.client, s.marker.Cluster)
}

// compare is check for the servers behind a client, and the cluster with that ID.
func (s *sameness) compare(ctx context.Context, client *etcd.Client, own string) error {
	resp, err := client.Get(ctx, keyspace.Under(s.client.Prefix()).Cluster())
	if err != nil || len(resp.Kvs) == 0 {
		return err
	}
	answers, err := record.DecodeCluster(resp.Kvs[0].Value)
	if err != nil || answers.ID == own {
		return err
	}
	path := s.dir.Path()
	return &datadir.RefusedError{
		Path: path,
		Problem: fmt.Sprintf("is of cluster %s, and the etcd at %s is that of cluster %s, as after a restore from a snapshot: this directory is of before that",
			own, strings.Join(client.Endpoints(), ", "), answers.ID),
		Remedy: fmt.Sprintf("stop this sidecar, type `mv %s %s.old`, and start it as `sidecar cluster token create` on a node of the restored cluster prints: docs/clusters.md#restore", path, path),
	}
}

// awaitSameCluster waits, without a limit, while the members that answer belong to another
// cluster.
func awaitSameCluster(ctx context.Context, f *flow) error { return transient(f.same.check(ctx)) }

const (
	// othersPause is the time between two questions to the other servers.
	othersPause = 5 * time.Second
	// othersTimeout bounds the question to one of them.
	othersTimeout = time.Second
)

// watch asks the other servers again and again which cluster is theirs, while this node's member
// waits for a majority. It sets found to why the directory does not fit them; empty: nothing shows
// that. stop ends it, and waits for it.
func (s *sameness) watch(ctx context.Context) (found *event.Value[string], stop func()) {
	found = event.New("")
	own := s.marker.Cluster
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		for pause := startPatience; backoff.Sleep(ctx, pause); pause = othersPause {
			if problem := s.otherCluster(ctx, own); ctx.Err() == nil {
				event.SetIfNew(found, problem)
			}
		}
	})
	return found, func() { cancel(); asking.Wait() }
}

// otherCluster makes one round of watch. One server of the same cluster counts more
// than any servers of another.
func (s *sameness) otherCluster(ctx context.Context, own string) (problem string) {
	others := slices.DeleteFunc(s.client.Endpoints(), func(url string) bool { return url == s.shared.ownURL() })
	for _, url := range others {
		err := s.askServer(ctx, url, own)
		if err == nil {
			return ""
		}
		if refused, is := errors.AsType[*datadir.RefusedError](err); is {
			problem = refused.Error()
		}
	}
	return problem
}

func (s *sameness) askServer(ctx context.Context, url, own string) error {
	client, err := s.dial(url)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	err = s.compare(limited, client, own)
	return errors.Join(err, client.Close())
}

// dial returns a client of one server.
func (s *sameness) dial(clientURL string) (*etcd.Client, error) {
	cfg := s.cfg.EtcdConfig(s.client.Prefix())
	cfg.Endpoints = []string{clientURL}
	return etcd.NewClient(cfg)
}
