package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// roles has what the first kube-apiserver of this process wrote below bootPrefixes into an empty etcd. It is the same in
// every cluster: the roles of RBAC, and what binds them. A kube-apiserver that finds them writes none.
var roles struct {
	sync.Mutex

	keys []*mvccpb.KeyValue // none: they are not known yet
}

var bootPrefixes = []string{"/registry/clusterroles/", "/registry/clusterrolebindings/", "/registry/roles/", "/registry/rolebindings/"}

const (
	bootTimeout = 30 * time.Second
	bootAtOnce  = 100 // etcd accepts 128 writes in a transaction
)

// prepareBoot writes the roles into the cluster's etcd before its first kube-apiserver starts. If they are not known yet,
// remember reads those that this one writes.
func (c *Cluster) prepareBoot() (remember func() error, err error) {
	nothing := func() error { return nil }
	if c.Etcd == nil || c.cfg.Etcd.CertFile != "" || !c.booted.CompareAndSwap(false, true) {
		return nothing, nil
	}
	roles.Lock()
	keys := roles.keys
	roles.Unlock()
	if len(keys) == 0 {
		return func() error { return c.withEtcd(rememberBoot) }, nil
	}
	return nothing, c.withEtcd(func(ctx context.Context, client *clientv3.Client) error { return writeBoot(ctx, client, keys) })
}

// withEtcd does something with a client of the cluster's etcd.
func (c *Cluster) withEtcd(do func(context.Context, *clientv3.Client) error) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	defer cancel()
	return errors.Join(do(ctx, client), client.Close())
}

func writeBoot(ctx context.Context, client *clientv3.Client, keys []*mvccpb.KeyValue) error {
	for some := range slices.Chunk(keys, bootAtOnce) {
		var puts []clientv3.Op
		for _, kv := range some {
			puts = append(puts, clientv3.OpPut(string(kv.Key), string(kv.Value)))
		}
		if _, err := client.Txn(ctx).Then(puts...).Commit(); err != nil {
			return fmt.Errorf("write the roles of RBAC: %w", err)
		}
	}
	return nil
}

func rememberBoot(ctx context.Context, client *clientv3.Client) error {
	var keys []*mvccpb.KeyValue
	for _, prefix := range bootPrefixes {
		found, err := client.Get(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			return fmt.Errorf("read the roles of RBAC: %w", err)
		}
		keys = append(keys, found.Kvs...)
	}
	roles.Lock()
	defer roles.Unlock()
	roles.keys = keys
	return nil
}
