// Package events copies the journal of package internal/journal into Events of Kubernetes (docs/history.md#events),
// for people who use kubectl. It owns the Events with the reporting controller lockstep.dev/sidecar.
//
// Only the leader writes them, also for other nodes. The name of an Event follows from its entry, so that the next
// leader continues the series of the one before it. Run is the one goroutine; it delays no other work, and drops
// an Event that cannot be written.
package events

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
)

// API sends requests to a kube-apiserver. It limits how long each may take.
type API interface {
	Do(context.Context, kube.Request) ([]byte, error)
}

// Config configures Events. All fields are required.
type Config struct {
	API  API
	Node protocol.NodeID // of this sidecar
	// Leads reports whether this node leads; the channel closes when that may have changed.
	Leads func() (bool, <-chan struct{})
	// Fleet and Own change when there may be something new: on other nodes, and on this one.
	Fleet *event.Value[protocol.Fleet]
	Own   *event.Value[int]
	// Read returns the journal.
	Read func(context.Context) []history.Entry
	Log  *slog.Logger
}

const (
	// settle is how long Events wait for more: the journals of other nodes, and the end of an open entry.
	settle = 5 * time.Second
	// recent is how old entries a new leader still shows, in case its predecessor did not.
	recent = 10 * time.Minute
	// maxRound bounds the requests between two times of settle.
	maxRound = 20
	// The pauses after a failure; refusedPause is for a user without the right to write Events.
	firstPause, maxPause = 10 * time.Second, 5 * time.Minute
	refusedPause         = time.Hour
)

// Events writes the journal as Events.
type Events struct {
	cfg Config
	// sent maps the name of each Event to the count of its entry. Only Run's goroutine uses it.
	sent map[string]int
}

// New returns an Events that has written none yet.
func New(cfg Config) *Events { return &Events{cfg: cfg, sent: map[string]int{}} }

// Run writes Events while this node leads, until ctx ends. While the journal does not change, it reads and sends
// nothing.
func (e *Events) Run(ctx context.Context) error {
	pauses := backoff.Backoff{First: firstPause, Max: maxPause, Jitter: backoff.Apart}
	for ctx.Err() == nil {
		leads, leadsChanged := e.cfg.Leads()
		_, fleetChanged := e.cfg.Fleet.Load()
		_, ownChanged := e.cfg.Own.Load()
		if !leads {
			event.Wait(ctx, leadsChanged)
			continue
		}
		if !backoff.Sleep(ctx, settle) {
			break
		}
		sent, err := e.round(ctx)
		switch {
		case ctx.Err() != nil:
		case kube.StatusCode(err) == http.StatusForbidden:
			e.cfg.Log.Info("no right to write Events of what happened", "err", err, "again", refusedPause)
			backoff.Sleep(ctx, refusedPause)
		case err != nil:
			e.cfg.Log.Debug("an Event was not written", "err", err)
			pauses.Sleep(ctx)
		case sent: // more may have happened meanwhile
			pauses.Reset()
		default:
			event.Wait(ctx, leadsChanged, fleetChanged, ownChanged)
		}
	}
	return ctx.Err()
}

// round writes new and grown entries as Events, and reports whether there were any.
func (e *Events) round(ctx context.Context) (sent bool, err error) {
	now := time.Now()
	entries := e.cfg.Read(ctx)
	known := make(map[string]int, len(e.sent))
	requests := 0
	for _, entry := range entries {
		name := nameOf(entry)
		was, shown := e.sent[name]
		if shown {
			known[name] = was
		}
		if shown && was >= entry.Count || !isRecent(entry, now) || requests >= maxRound || err != nil {
			continue
		}
		requests++
		write := e.create
		if shown {
			write = e.proceed
		}
		err = write(ctx, eventOf(entry, e.cfg.Node, now))
		if code := kube.StatusCode(err); code == http.StatusBadRequest || code == http.StatusUnprocessableEntity {
			e.cfg.Log.Warn("an Event was rejected", "kind", string(entry.Kind), "reason", string(entry.Reason), "err", err)
			err = nil // it must not delay the others
		}
		if err == nil {
			known[name] = entry.Count
		}
	}
	e.sent = known
	return requests > 0, err
}

func isRecent(e history.Entry, now time.Time) bool { return now.Sub(e.End(e.Time)) < recent }

// create creates an Event. If an earlier leader already created it, it continues the series.
func (e *Events) create(ctx context.Context, o object) error {
	err := e.send(ctx, kube.Request{Verb: http.MethodPost, Path: pathOf(o), ContentType: "application/json"}, o)
	if kube.StatusCode(err) != http.StatusConflict {
		return err
	}
	if o.Series == nil {
		return nil
	}
	return e.patch(ctx, o)
}

// proceed continues the series of an Event. If the Event was deleted, it creates it again: Events last an hour.
func (e *Events) proceed(ctx context.Context, o object) error {
	err := e.patch(ctx, o)
	if kube.StatusCode(err) == http.StatusNotFound {
		return e.create(ctx, o)
	}
	return err
}

func (e *Events) patch(ctx context.Context, o object) error {
	r := kube.Request{Verb: http.MethodPatch, Path: pathOf(o) + "/" + o.Metadata.Name, ContentType: "application/merge-patch+json"}
	return e.send(ctx, r, seriesPatch{o.Series})
}

func pathOf(o object) string {
	return "/apis/events.k8s.io/v1/namespaces/" + o.Metadata.Namespace + "/events"
}

func (e *Events) send(ctx context.Context, r kube.Request, body any) error {
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return err
	}
	_, err = e.cfg.API.Do(ctx, r)
	return err
}
