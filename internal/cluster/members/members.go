// Package members keeps this node's list of its cluster's members: from etcd while that
// answers, and on the disk for starts while it does not. It owns the file members.json of
// the data directory. Config.Publish receives each list first, and the client uses it then
// (docs/clusters.md#members).
//
// Run starts one goroutine for each prefix that it follows, and waits for them.
package members

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Member is one member of the cluster.
type Member struct {
	ID        string `json:"id"` // of etcd, in hexadecimal
	Node      string `json:"node"`
	Address   string `json:"address"`
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
	Learner   bool   `json:"learner,omitempty"`
	Leaving   bool   `json:"leaving,omitempty"` // its removal was decided
	// ForGood: an operator decided it. The cluster refuses the node's key.
	ForGood bool `json:"forGood,omitempty"`
}

// Config configures a Directory. All is required.
type Config struct {
	Client *etcd.Client
	File   string // members.json
	// Publish is called with each list before List returns it, and first with the list on
	// the disk. It must not call the Directory.
	Publish func([]Member)
	// PublishRemoved is called with the members that people removed, after each change.
	PublishRemoved func([]protocol.MemberRemoval)
	Log            *slog.Logger
}

// Directory is the list of the members.
type Directory struct {
	cfg  Config
	list *event.Value[[]Member]

	mu       sync.Mutex // mu guards the fields below
	records  []*etcd.KV // of the members
	learners []*etcd.KV
	listed   bool // the members were listed
}

// New returns a directory with the list that is on the disk. A file that cannot be
// read is logged: etcd keeps the list too.
func New(cfg Config) *Directory {
	d := &Directory{cfg: cfg, list: event.New[[]Member](nil)}
	list, err := Read(cfg.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		cfg.Log.Warn("list of the members not read, etcd is asked for it", "err", err)
	}
	d.publish(list)
	return d
}

// List follows the members, in the order of their IDs. It is empty until it is known.
func (d *Directory) List() *event.Value[[]Member] { return d.list }

// Run follows the members until ctx ends.
func (d *Directory) Run(ctx context.Context) error {
	keys := keyspace.Under(d.cfg.Client.Prefix())
	group, ctx := errgroup.WithContext(ctx)
	follow := func(prefix string, report func(etcd.Listing)) {
		group.Go(func() error { return d.cfg.Client.Follow(ctx, prefix, report) })
	}
	follow(keys.ClusterMembers(), func(l etcd.Listing) { d.update(func() { d.records, d.listed = l.KVs, true }) })
	follow(keys.ClusterLearners(), func(l etcd.Listing) { d.update(func() { d.learners = l.KVs }) })
	follow(keys.RemovedMembers(), func(l etcd.Listing) { d.cfg.PublishRemoved(Removals(l)) })
	return group.Wait()
}

// update applies a change, then writes and publishes the list if it is another one. An
// empty list means that the store was lost: then the known list stays.
func (d *Directory) update(apply func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	apply()
	if !d.listed {
		return
	}
	list := d.decode()
	if len(list) == 0 || slices.Equal(list, d.list.Get()) {
		return
	}
	if err := write(d.cfg.File, list); err != nil {
		d.cfg.Log.Warn("list of the members not written, the next start asks those that it has", "err", err)
	}
	d.publish(list)
}

// decode returns the members in etcd. It needs mu.
func (d *Directory) decode() []Member {
	learns := map[uint64]bool{}
	for _, kv := range d.learners {
		learns[keyspace.MemberOf(kv.Key)] = true
	}
	var list []Member
	for _, kv := range d.records {
		m, err := record.DecodeMember(kv.Key, kv.Value)
		if err != nil {
			d.cfg.Log.Warn("record of a member ignored", "key", kv.Key, "err", err)
			continue
		}
		list = append(list, Member{
			ID: keyspace.MemberID(m.ID), Node: string(m.Node), Address: m.Address,
			PeerURL: m.PeerURL, ClientURL: m.ClientURL, Learner: learns[m.ID], Leaving: m.Leaving, ForGood: !m.Removed.IsZero(),
		})
	}
	return list
}

// Removals decodes the records of removed members. It leaves corrupt ones out: only messages depend on them.
func Removals(l etcd.Listing) []protocol.MemberRemoval {
	var out []protocol.MemberRemoval
	for _, kv := range l.KVs {
		if m, err := record.DecodeMember(kv.Key, kv.Value); err == nil {
			out = append(out, protocol.MemberRemoval{Node: m.Node, At: m.Removed, By: m.By, Revision: kv.ModRevision})
		}
	}
	return out
}

func (d *Directory) publish(list []Member) {
	d.cfg.Publish(list)
	d.list.Set(list)
}

// Endpoints returns the client URLs of a list for a node: first of voters, then of
// learners, which serve once they are voters. The node uses the first one, so each node
// gets an order of its own: nodes without a member spread over the voters, and when one
// leaves, only its nodes move.
func Endpoints(node string, list []Member) []string {
	list = slices.Clone(list)
	sorting.By(list, func(a, b Member) int {
		return cmp.Or(cmp.Compare(boolean[a.Learner], boolean[b.Learner]), cmp.Compare(weight(node, a.ID), weight(node, b.ID)))
	})
	var out []string
	for _, m := range list {
		if m.ClientURL != "" && !slices.Contains(out, m.ClientURL) {
			out = append(out, m.ClientURL)
		}
	}
	return out
}

var boolean = map[bool]int{true: 1}

// weight decides how early a node uses a member: it is as good as random, and always the
// same.
func weight(node, member string) uint64 {
	sum := sha256.Sum256([]byte(node + "/" + member))
	return binary.BigEndian.Uint64(sum[:8])
}

// file is the content of members.json.
type file struct {
	Version int      `json:"version"`
	Members []Member `json:"members"`
}

// fileVersion is the version of a file that this program can read.
const fileVersion = 1

// Read returns the list in a file.
func Read(path string) ([]Member, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of the members: %w", err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("read the list of the members in %q: %w", path, err)
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("read the list of the members in %q: it has version %d, this program knows %d", path, f.Version, fileVersion)
	}
	return f.Members, nil
}

func write(path string, list []Member) error {
	text, err := json.MarshalIndent(file{Version: fileVersion, Members: list}, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(text, '\n'), 0o600)
}
