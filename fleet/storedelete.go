package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// StoreDeletion is the input of DeleteStore.
type StoreDeletion struct {
	// StatusOnly: everything else is kept.
	StatusOnly bool
	// EtcdCluster is the ID of the etcd cluster that the sidecars run themselves, by its
	// record below the prefix; 0: there is no record. If it is the cluster that answers,
	// the keys of its members are kept: etcd goes on, and needs them.
	EtcdCluster uint64
	// Force: also while sidecars are alive. They write their keys again.
	Force bool
	// DryRun: nothing is deleted.
	DryRun bool
}

// StoreContents are the keys that a StoreDeletion is about, at one revision.
type StoreContents struct {
	StoreID string      // empty: the key is missing or corrupt
	Parts   []StorePart // those with keys, in the order of keyspace
	// Alive are the nodes with a sidecar that runs, or ran until a moment ago.
	Alive []protocol.NodeID
	// Members is how many keys of the members of this etcd are kept.
	Members int64
	// Others is how many keys below the prefix belong to no part of the store, such as the keys
	// of another store with a longer prefix; Example is one of them. They are kept.
	Others  int64
	Example string

	revision int64
}

// StorePart is a key or a range of keys.
type StorePart struct {
	Key   string // a range ends with a slash
	Count int64
	Nodes []protocol.NodeID // of node records and presences
}

// Count returns how many keys there are to delete.
func (c StoreContents) Count() (n int64) {
	for _, p := range c.Parts {
		n += p.Count
	}
	return n
}

// StoreInUseError is returned for a store whose sidecars are alive.
type StoreInUseError struct{ Alive []protocol.NodeID }

// Error names the nodes.
func (e *StoreInUseError) Error() string {
	return "the store is in use by the sidecars of these nodes: " + strings.Join(protocol.NodeNames(e.Alive), ", ")
}

// DeleteStore deletes the keys of a store, and no others, in one transaction that holds only if
// the store is as it was read. It returns the deleted keys. With a *StoreInUseError, or a dry
// run, it deleted nothing, and returns the keys that exist.
func DeleteStore(ctx context.Context, client *etcd.Client, d StoreDeletion) (StoreContents, error) {
	var found StoreContents
	err := etcd.UntilUnchanged(ctx, func() (err error) {
		found, err = tryDelete(ctx, client, d)
		return err
	})
	if err != nil {
		return found, fmt.Errorf("delete the store %s: %w", client.Prefix(), err)
	}
	return found, nil
}

// tryDelete returns etcd.ErrChanged if the store changed after it was read.
func tryDelete(ctx context.Context, client *etcd.Client, d StoreDeletion) (StoreContents, error) {
	found, err := readContents(ctx, client, d)
	switch {
	case err != nil:
		return StoreContents{}, err
	case len(found.Alive) > 0 && !d.Force:
		return found, &StoreInUseError{found.Alive}
	case d.DryRun || len(found.Parts) == 0:
		return found, nil
	}
	return found, found.delete(ctx, client)
}

// delete deletes the keys that were read, unless a key was written or a sidecar started since.
func (c StoreContents) delete(ctx context.Context, client *etcd.Client) error {
	keys := keyspace.Under(client.Prefix())
	conds := []clientv3.Cmp{unchanged(keys.Presences(), c.revision), unchanged(keys.Leaders(), c.revision)}
	var ops []clientv3.Op
	for _, p := range c.Parts {
		conds = append(conds, unchanged(p.Key, c.revision))
		ops = append(ops, clientv3.OpDelete(p.Key, below(p.Key)...))
	}
	_, err := client.Write(ctx, conds, ops...)
	return err
}

// unchanged holds if no key of a part was written after a revision.
func unchanged(key string, revision int64) clientv3.Cmp {
	c := clientv3.Compare(clientv3.ModRevision(key), "<", revision+1)
	if isRange(key) {
		return c.WithPrefix()
	}
	return c
}

func isRange(key string) bool { return strings.HasSuffix(key, "/") }

// below are the options of a request for a part.
func below(key string, more ...clientv3.OpOption) []clientv3.OpOption {
	if isRange(key) {
		more = append(more, clientv3.WithPrefix())
	}
	return more
}

// exampleWithin is among how many keys below the prefix DeleteStore looks for an example.
const exampleWithin = 1000

// readContents reads everything at one revision.
func readContents(ctx context.Context, client *etcd.Client, d StoreDeletion) (StoreContents, error) {
	keys := keyspace.Under(client.Prefix())
	ops := []clientv3.Op{
		clientv3.OpGet(keys.Store()),
		clientv3.OpGet(client.Prefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(exampleWithin)),
		clientv3.OpGet(keys.Leaders(), clientv3.WithPrefix()), // the values name the nodes
	}
	first := len(ops)
	all := slices.Concat(keys.StoreParts(), keys.ClusterParts())
	for _, key := range all {
		ops = append(ops, clientv3.OpGet(key, below(key, clientv3.WithKeysOnly())...))
	}
	resp, err := client.Txn(ctx, nil, ops, nil)
	if err != nil {
		return StoreContents{}, fmt.Errorf("read its keys: %w", err)
	}
	out := StoreContents{
		StoreID: decodeStoreKey(keys.Store(), etcd.NewListing(resp, 0)).ID, revision: resp.Header.Revision,
		Others: resp.Responses[1].GetResponseRange().Count,
	}
	for _, kv := range etcd.NewListing(resp, 2).KVs {
		out.Alive = append(out.Alive, protocol.NodeID(kv.Value))
	}
	deleted := d.parts(keys, resp.Header.ClusterId)
	for i, key := range all {
		out.add(keys, newPart(keys, key, etcd.NewListing(resp, first+i).KVs), slices.Contains(deleted, key))
	}
	slices.Sort(out.Alive)
	out.Alive = slices.Compact(out.Alive)
	for _, kv := range etcd.NewListing(resp, 1).KVs {
		if out.Others > 0 && out.Example == "" && !slices.ContainsFunc(all, func(part string) bool { return isIn(kv.Key, part) }) {
			out.Example = kv.Key
		}
	}
	return out, nil
}

// parts returns the keys and ranges to delete, if etcdCluster is the ID of the cluster that
// answers.
func (d StoreDeletion) parts(keys keyspace.Keys, etcdCluster uint64) []string {
	switch {
	case d.StatusOnly:
		return []string{keys.Status()}
	case d.EtcdCluster != 0 && d.EtcdCluster == etcdCluster:
		return keys.StoreParts()
	}
	return slices.Concat(keys.StoreParts(), keys.ClusterParts())
}

func newPart(keys keyspace.Keys, key string, kvs []*etcd.KV) StorePart {
	p := StorePart{Key: key, Count: int64(len(kvs))}
	if key == keys.Nodes() || key == keys.Presences() {
		for _, kv := range kvs {
			p.Nodes = append(p.Nodes, keys.NodeOf(kv.Key))
		}
	}
	return p
}

// add counts a part, which is to be deleted or to be kept.
func (c *StoreContents) add(keys keyspace.Keys, p StorePart, deleted bool) {
	c.Others -= p.Count
	if p.Key == keys.Presences() {
		c.Alive = append(c.Alive, p.Nodes...)
	}
	switch {
	case deleted && p.Count > 0:
		c.Parts = append(c.Parts, p)
	case slices.Contains(keys.ClusterParts(), p.Key):
		c.Members += p.Count
	}
}

func isIn(key, part string) bool {
	return key == part || isRange(part) && strings.HasPrefix(key, part)
}
