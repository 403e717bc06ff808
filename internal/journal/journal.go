// Package journal stores the history of the fleet in etcd (docs/history.md). It owns the keys below history/.
// Package history decides which changes deserve an entry. This package writes the entries late, in batches, and at
// most once a second, so that it delays no other work. Run is the one goroutine that writes.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Config configures a Journal. All fields are required, except Registerer.
type Config struct {
	Client     *etcd.Client
	Node       protocol.NodeID
	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

const (
	// batchTime is how long a sidecar waits for more before it writes, and between two writes.
	batchTime = time.Second
	// maxBatch bounds a transaction: etcd accepts 128 operations.
	maxBatch = 50
	// lastTime bounds the write of a sidecar that stops.
	lastTime = time.Second
	// maxPause is the longest time between two attempts after a failure.
	maxPause = 30 * time.Second
)

// Journal writes the history as this sidecar sees it. All methods may be called from many goroutines. Only Run and
// Read wait for etcd.
type Journal struct {
	cfg     Config
	metrics *metrics
	keys    keyspace.Keys
	dirty   *event.Value[int] // wakes Run

	mu      sync.Mutex // mu guards the fields below
	ledger  *history.Ledger
	adopted bool // the ledger contains the stored entries, for the role that the node plays now
	leading bool

	reading sync.Mutex // one read at a time; it guards the two below
	readAt  time.Time
	read    []history.Entry // the newest answer
}

// New returns the journal of a sidecar that has just started.
func New(cfg Config) *Journal {
	return &Journal{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), keys: keyspace.Under(cfg.Client.Prefix()), dirty: event.New(0),
		ledger: history.NewLedger(cfg.Node, time.Now()),
	}
}

// Changed changes whenever there is something new to write.
func (j *Journal) Changed() *event.Value[int] { return j.dirty }

// Verdict records a verdict of the gate.
func (j *Journal) Verdict(was, now protocol.Verdict) {
	j.change(func(l *history.Ledger) { l.Verdict(time.Now(), was, now) })
}

// Observe records the facts as they are now.
func (j *Journal) Observe(facts history.Facts) {
	j.change(func(l *history.Ledger) {
		if facts.Leading && !j.leading {
			j.adopted = false // read the entries of the leaders before it
		}
		j.leading = facts.Leading
		l.Observe(time.Now(), facts)
	})
}

func (j *Journal) change(do func(*history.Ledger)) {
	j.mu.Lock()
	do(j.ledger)
	due, news := len(j.ledger.Due(1)) > 0, j.ledger.TakeNews()
	j.mu.Unlock()
	j.report(news)
	if due {
		event.Update(j.dirty, func(n int) int { return n + 1 })
	}
}

// report counts and logs what happened. What joins an entry, as often as it repeats, is only counted.
func (j *Journal) report(news []history.News) {
	for _, n := range news {
		j.metrics.count(n)
		if !n.Again {
			j.cfg.Log.Info("happened", "kind", n.Kind, "about", n.Node, "reason", n.Reason, "message", n.Message)
		}
	}
}

// Run writes entries until ctx ends, and then the ones that are left.
func (j *Journal) Run(ctx context.Context) error {
	pauses := backoff.Backoff{First: batchTime, Max: maxPause, Jitter: backoff.Apart}
	for {
		_, changed := j.dirty.Load()
		contact, contactChanged := j.cfg.Client.Contact().Load()
		switch {
		case !contact.Connected:
			event.Wait(ctx, changed, contactChanged) // etcd may answer again
		case !j.due():
			event.Wait(ctx, changed)
		case backoff.Sleep(ctx, batchTime): // more entries, and the ends of these, may follow
			j.writeNow(ctx, &pauses)
		}
		if ctx.Err() != nil {
			j.writeLast(ctx)
			return ctx.Err()
		}
	}
}

// writeNow writes a batch, and pauses after a failure.
func (j *Journal) writeNow(ctx context.Context, pauses *backoff.Backoff) {
	err := j.write(ctx)
	if err == nil || errors.Is(err, etcd.ErrChanged) {
		pauses.Reset()
		return
	}
	j.cfg.Log.Debug("history was not written", "err", err)
	pauses.Sleep(ctx)
}

func (j *Journal) due() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.ledger.Due(1)) > 0
}

// writeLast writes the entries that are left when the sidecar stops. It uses a limit of its own: ctx is over.
func (j *Journal) writeLast(ctx context.Context) {
	if !j.cfg.Client.Contact().Get().Connected {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	for j.due() {
		if err := j.write(ctx); err != nil && !errors.Is(err, etcd.ErrChanged) {
			return
		}
	}
}

// write writes a batch. It returns etcd.ErrChanged if another sidecar wrote one of the entries; the next write
// then adopts that entry first.
func (j *Journal) write(ctx context.Context) error {
	if err := j.adopt(ctx); err != nil {
		return err
	}
	j.mu.Lock()
	batch := j.ledger.Due(maxBatch)
	j.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	var conds []clientv3.Cmp
	var ops []clientv3.Op
	for _, h := range batch {
		key := j.keys.HistoryEntry(h.ID)
		value, err := json.Marshal(h.Entry)
		if err != nil {
			return fmt.Errorf("write history: %w", err)
		}
		conds = append(conds, clientv3.Compare(clientv3.ModRevision(key), "=", h.Revision))
		ops = append(ops, clientv3.OpPut(key, string(value)))
	}
	ops = append(ops, clientv3.OpGet(j.keys.History(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	resp, err := j.cfg.Client.Write(ctx, conds, ops...)
	if errors.Is(err, etcd.ErrChanged) {
		j.mu.Lock()
		j.adopted = false
		j.mu.Unlock()
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	for _, h := range batch {
		j.ledger.Written(h, resp.Header.Revision)
	}
	j.mu.Unlock()
	if resp.Responses[len(batch)].GetResponseRange().Count > history.MaxEntries {
		return j.prune(ctx)
	}
	return nil
}

// adopt reads the stored entries, after a start, an election, and a conflict.
func (j *Journal) adopt(ctx context.Context) error {
	j.mu.Lock()
	adopted := j.adopted
	j.mu.Unlock()
	if adopted {
		return nil
	}
	stored, err := list(ctx, j.cfg.Client)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.adopted = true
	j.ledger.Adopt(time.Now(), stored)
	return nil
}

// room is how many entries prune deletes beyond the limit, so that the next ones fit.
const room = history.MaxEntries / 10

// prune deletes the least important entries.
func (j *Journal) prune(ctx context.Context) error {
	stored, err := list(ctx, j.cfg.Client)
	if err != nil {
		return err
	}
	var ops []clientv3.Op
	for _, e := range history.Drop(entriesOf(stored), history.MaxEntries-room) {
		ops = append(ops, clientv3.OpDelete(j.keys.HistoryEntry(e.ID)))
	}
	for batch := range slices.Chunk(ops, maxBatch) {
		if _, err := j.cfg.Client.Write(ctx, nil, batch...); err != nil {
			return fmt.Errorf("delete history: %w", err)
		}
	}
	return nil
}

func entriesOf(stored []history.Held) []history.Entry {
	out := make([]history.Entry, 0, len(stored))
	for _, h := range stored {
		out = append(out, h.Entry)
	}
	return out
}

// list reads all entries. An entry that cannot be decoded, of a newer program, is of kind unknown and without a
// time.
func list(ctx context.Context, client *etcd.Client) ([]history.Held, error) {
	prefix := keyspace.Under(client.Prefix()).History()
	resp, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	out := make([]history.Held, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		h := history.Held{Revision: kv.ModRevision}
		if err := json.Unmarshal(kv.Value, &h.Entry); err != nil {
			h.Entry = history.Entry{Kind: "unknown"} // of no rank, so it is deleted first
		}
		h.ID = strings.TrimPrefix(string(kv.Key), prefix)
		out = append(out, h)
	}
	return out, nil
}

// List reads the journal, the newest entry last.
func List(ctx context.Context, client *etcd.Client) ([]history.Entry, error) {
	stored, err := list(ctx, client)
	if err != nil {
		return nil, err
	}
	return readable(entriesOf(stored)), nil
}

// readable leaves out entries that this program cannot decode.
func readable(entries []history.Entry) []history.Entry {
	entries = slices.DeleteFunc(entries, func(e history.Entry) bool { return e.Time.IsZero() })
	history.Sort(entries)
	history.NameSilent(entries)
	return entries
}

const (
	// readFor is how long an answer of etcd is used again, so that many readers cost etcd one
	// request a second.
	readFor = time.Second
	// readTime bounds a read.
	readTime = 2 * time.Second
)

// Read returns the journal with the entries that this sidecar has not written yet, the newest entry last. While
// etcd does not answer, it returns the newest answer, and the entries that this sidecar holds itself.
func (j *Journal) Read(ctx context.Context) []history.Entry {
	j.reading.Lock()
	defer j.reading.Unlock()
	if time.Since(j.readAt) > readFor && j.cfg.Client.Contact().Get().Connected {
		limited, cancel := context.WithTimeout(ctx, readTime)
		defer cancel()
		if entries, err := List(limited, j.cfg.Client); err == nil {
			j.read, j.readAt = entries, time.Now()
		}
	}
	j.mu.Lock()
	own := entriesOf(j.ledger.Due(history.MaxEntries))
	j.mu.Unlock()
	return merged(j.read, own)
}

// merged replaces stored entries by the ledger's versions of them, and adds the ledger's other entries.
func merged(stored, own []history.Entry) []history.Entry {
	at := map[string]int{}
	out := slices.Clone(stored)
	for i, e := range out {
		at[e.ID] = i
	}
	for _, e := range own {
		if i, found := at[e.ID]; found {
			out[i] = e
			continue
		}
		out = append(out, e)
	}
	return readable(out)
}
