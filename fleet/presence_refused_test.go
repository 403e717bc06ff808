package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// An etcd whose database is full refuses writes, and goes on to extend leases. The
// presence tries again after longer and longer pauses, the log has one warning for
// each outage, and what the presence shows is written when etcd accepts it again.
func TestPresence_etcdRefusesWrites(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	log := &attempts{}
	shown := event.New(Shown{})
	p := NewPresence(PresenceConfig{
		Client: newClient(t, server.Endpoints()...), Node: "me", Instance: "i", MachineID: "m", TTL: 5 * time.Second,
		Shown: shown, Log: slog.New(log),
	})
	run(t, p.Run)
	await(t, p.Lease(), "the presence", func(lease clientv3.LeaseID) bool { return lease != clientv3.NoLease })
	for outage := 1; outage <= 2; outage++ {
		before := log.event().Get()
		empty := etcdtest.Fill(t, raw)
		now := Shown{Presence: protocol.Presence{Ready: true, Reason: protocol.Ready}, Since: time.Unix(int64(outage), 0)}
		shown.Set(now)
		all := await(t, log.event(), "five refused writes", func(all []attempt) bool { return len(all) >= len(before)+5 })
		var pauses []time.Duration
		warnings := 0
		for _, a := range all[len(before):] {
			pauses = append(pauses, a.pause)
			if a.level >= slog.LevelWarn {
				warnings++
			}
		}
		most := p.cfg.TTL / writesPerLease
		want := []time.Duration{minPresencePause, 2 * minPresencePause, 4 * minPresencePause, 8 * minPresencePause, most}
		inJitter := func(got, want time.Duration) bool { return got <= want && got >= want/2 }
		if !slices.EqualFunc(pauses[:5], want, inJitter) {
			t.Errorf("outage %d: got pauses %s, want %s, less up to a half of each", outage, pauses[:5], want)
		}
		if warnings != 1 {
			t.Errorf("outage %d: got %d warnings, want 1", outage, warnings)
		}
		empty()
		awaitShown(t, raw, now.Since)
	}
}

// attempt is what the log has of one that failed.
type attempt struct {
	level slog.Level
	pause time.Duration
}

// attempts is a log that keeps the pauses in it.
type attempts struct {
	once sync.Once
	seen *event.Value[[]attempt]
}

func (a *attempts) event() *event.Value[[]attempt] {
	a.once.Do(func() { a.seen = event.New[[]attempt](nil) })
	return a.seen
}

func (a *attempts) Enabled(context.Context, slog.Level) bool { return true }
func (a *attempts) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a *attempts) WithGroup(string) slog.Handler            { return a }

func (a *attempts) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "in" {
			a.event().Set(append(slices.Clone(a.event().Get()), attempt{level: r.Level, pause: attr.Value.Duration()}))
		}
		return true
	})
	return nil
}

// awaitShown waits until the presence in etcd has a verdict since the given time.
func awaitShown(t *testing.T, raw *clientv3.Client, since time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range raw.Watch(ctx, keys.Presence("me"), clientv3.WithRev(1)) {
		resp, err := raw.Get(ctx, keys.Presence("me"))
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Kvs) == 1 && verdictSince(resp.Kvs[0].Value).Equal(since) {
			return
		}
	}
	t.Fatal("the presence was not written again")
}
