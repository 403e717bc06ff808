package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// StoreKey is the key of the store ID, as it was observed at one revision
// (docs/protocol.md#store-id).
type StoreKey struct {
	ID       string  // empty: the key is missing or corrupt
	Revision int64   // the key's mod revision; 0: it is missing
	At       etcd.At // when, in the store's history, this was true; zero: it was never read
}

// storeIDLen is the length of an ID in bytes. As text it takes two digits for each.
const storeIDLen = 16

// ValidStoreID reports whether id has the form of a store ID.
func ValidStoreID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && hex.EncodeToString(b) == id && len(b) == storeIDLen
}

// decodeStoreKey returns the store key in a listing that contains it, among others or alone.
func decodeStoreKey(key string, l etcd.Listing) StoreKey {
	kv := l.Find(key)
	return StoreKey{ID: decodeStoreID(kv.Value), Revision: kv.ModRevision, At: l.At}
}

func newStoreID() string {
	var random [storeIDLen]byte
	_, _ = rand.Read(random[:]) // never returns an error
	return hex.EncodeToString(random[:])
}

// storeID returns the ID that this sidecar saw in the store, or a new one. An ID that was seen
// before the store went back does not count: the store may be another one now, and then needs
// an ID of its own.
func (r *Registrar) storeID() (id string, seen bool) {
	if key := r.cfg.Store.Get(); key.ID != "" {
		r.store = key
	}
	if r.store.ID != "" && r.store.At.Rewinds == r.cfg.Client.Rewound().Get() {
		return r.store.ID, true
	}
	return newStoreID(), false
}

// createStoreID is the part of a registration that writes the store ID if the key is
// missing.
func (r *Registrar) createStoreID() clientv3.Op {
	id, _ := r.storeID()
	key := r.keys.Store()
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, string(encodeStoreID(id)))}, nil)
}

// keepStoreID writes the store ID again if the key was deleted or damaged after this sidecar
// saw the ID. After a failure, retry reports when to try again.
func (r *Registrar) keepStoreID(ctx context.Context) (retry <-chan time.Time) {
	key := r.cfg.Store.Get()
	id, seen := r.storeID()
	if !seen || key.ID != "" {
		return nil
	}
	if err := r.restoreStoreID(ctx, id, key.Revision); err != nil && ctx.Err() == nil {
		r.cfg.Log.Debug("the store ID was not written again, trying again", "err", err)
		return time.After(backoff.Spread(maxRegisterPause))
	}
	return nil
}

// restoreStoreID makes one attempt. This sidecar's presence is a condition, so that
// the ID is not written into a store that the sidecar does not know yet.
func (r *Registrar) restoreStoreID(ctx context.Context, id string, revision int64) error {
	lease := r.cfg.Presence.Get()
	if lease == clientv3.NoLease {
		return errNoPresence
	}
	key := r.keys.Store()
	conds := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", revision),
		clientv3.Compare(clientv3.LeaseValue(r.keys.Presence(r.cfg.Local.Get().ID)), "=", lease),
	}
	if _, err := r.cfg.Client.Write(ctx, conds, clientv3.OpPut(key, string(encodeStoreID(id)))); err != nil {
		return fmt.Errorf("write the store ID: %w", err)
	}
	r.cfg.Log.Warn("the store ID was deleted or damaged, written again", "store", id)
	return nil
}

// Store describes a store, for the commands.
type Store struct {
	Key    StoreKey
	Status bool // there is a status, valid or not
}

// ReadStore reads the store ID, and whether there is a status.
func ReadStore(ctx context.Context, client *etcd.Client) (Store, error) {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(keys.Store()), clientv3.OpGet(keys.Status(), clientv3.WithCountOnly()),
	}, nil)
	if err != nil {
		return Store{}, fmt.Errorf("read the store ID: %w", err)
	}
	return Store{
		Key:    decodeStoreKey(keys.Store(), etcd.NewListing(resp, 0)),
		Status: resp.Responses[1].GetResponseRange().Count > 0,
	}, nil
}

// AdoptStoreID gives the store another ID, so that its leader takes over the objects of the
// store that used this ID (docs/protocol-objects.md#stores). It returns ErrGoverned if the store
// contains a status and a valid ID. That the ID is the same already is no error.
func AdoptStoreID(ctx context.Context, client *etcd.Client, id string) error {
	if err := etcd.UntilUnchanged(ctx, func() error { return tryAdopt(ctx, client, id) }); err != nil {
		return fmt.Errorf("adopt store ID %s: %w", id, err)
	}
	return nil
}

// tryAdopt returns etcd.ErrChanged if the store changed after it was read.
func tryAdopt(ctx context.Context, client *etcd.Client, id string) error {
	if !ValidStoreID(id) {
		return fmt.Errorf("%q is not a store ID: want %d hexadecimal digits, in lower case", id, 2*storeIDLen)
	}
	store, err := ReadStore(ctx, client)
	switch {
	case err != nil:
		return err
	case store.Key.ID == id:
		return nil
	case store.Status && store.Key.ID != "":
		return ErrGoverned
	}
	keys := keyspace.Under(client.Prefix())
	conds := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(keys.Store()), "=", store.Key.Revision)}
	if store.Key.ID != "" {
		conds = append(conds, clientv3.Compare(clientv3.CreateRevision(keys.Status()), "=", 0))
	}
	_, err = client.Write(ctx, conds, clientv3.OpPut(keys.Store(), string(encodeStoreID(id))))
	return err
}
