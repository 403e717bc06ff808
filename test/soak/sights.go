package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// This file observes the effects of roles: the list of the members, the processes of a
// node, and writes.

const (
	sightPause = 250 * time.Millisecond
	writePause = 100 * time.Millisecond
	// writesBelow is the prefix of the keys that the soak itself writes.
	writesBelow = "/soak/writes/"
)

// add changes the history.
func (r *recorder) add(change func(*judge.History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.history)
}

// watchRoles observes until ctx ends.
func (w *world) watchRoles(ctx context.Context) {
	for pause(ctx, sightPause) {
		if seats, err := w.seats(ctx); err == nil {
			w.rec.add(func(h *judge.History) { h.Seats = append(h.Seats, seats) })
		}
	}
}

// seats asks for the list of the members.
func (w *world) seats(ctx context.Context) (judge.Seats, error) {
	out := judge.Seats{Sent: w.rec.now()}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := w.etcd.MemberList(ctx)
	if err != nil {
		return out, err
	}
	out.Got = w.rec.now()
	for _, m := range list.Members {
		i := slices.IndexFunc(w.nodes, func(n *node) bool {
			return strings.Contains(strings.Join(m.PeerURLs, ","), "//"+n.machine.Address.String()+":")
		})
		if i >= 0 {
			out.All = append(out.All, judge.Seat{ID: m.ID, Node: w.nodes[i].name(), Voter: !m.IsLearner})
		}
	}
	return out, nil
}

// asRecorded returns nil if all nodes match their records, and records its observations.
func (w *world) asRecorded(ctx context.Context) error {
	var problems []error
	for _, n := range w.nodes {
		s, err := w.sight(ctx, n)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", n.name(), err))
			continue
		}
		w.rec.add(func(h *judge.History) { h.Sights = append(h.Sights, s) })
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		resp, err := w.etcd.Get(ctx, w.rec.keys.Node(protocol.NodeID(n.name())))
		cancel()
		if err != nil || len(resp.Kvs) == 0 {
			problems = append(problems, fmt.Errorf("%s has no record: %w", n.name(), err))
			continue
		}
		if problem := s.Differs(*w.rec.decodeRecord(resp.Kvs[0], false)); problem != "" {
			problems = append(problems, errors.New(problem))
		}
	}
	return errors.Join(problems...)
}

// sight observes a node.
func (w *world) sight(ctx context.Context, n *node) (judge.Sight, error) {
	seats, err := w.seats(ctx)
	if err != nil {
		return judge.Sight{}, err
	}
	out := judge.Sight{Node: n.name(), Sent: w.rec.now()}
	for _, seat := range seats.All {
		if seat.Node == out.Node {
			out.Listed, out.Votes = true, seat.Voter
		}
	}
	s := n.running()
	if s == nil {
		return out, errors.New("it has no sidecar")
	}
	pid, err := s.Child()
	if err != nil {
		return out, err
	}
	service, err := n.serving()
	if err != nil {
		return out, err
	}
	out.Runs, out.Serves = pid != 0, service != 0
	out.Open = s.Readyz(ctx) == nil
	out.Got = w.rec.now()
	return out, nil
}

// write writes until ctx ends, and records which writes were acknowledged.
func (w *world) write(ctx context.Context) {
	for i := 0; pause(ctx, writePause); i++ {
		ack := judge.Ack{Key: fmt.Sprintf("%s%06d", writesBelow, i)}
		limited, cancel := context.WithTimeout(ctx, 2*readTimeout)
		resp, err := w.etcd.Put(limited, ack.Key, "x")
		cancel()
		if err == nil {
			ack.Revision = resp.Header.Revision
			w.rec.add(func(h *judge.History) { h.Acks = append(h.Acks, ack) })
		}
	}
}

// stillThere returns an error if a write that was acknowledged is not in etcd.
func (w *world) stillThere(ctx context.Context) error {
	acks := w.rec.historySoFar().Acks // before the read: the writes go on
	resp, err := w.etcd.Get(ctx, writesBelow, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, kv := range resp.Kvs {
		has[string(kv.Key)] = true
	}
	for _, ack := range acks {
		if !has[ack.Key] {
			return fmt.Errorf("%s was acknowledged at revision %d, and is not in etcd", ack.Key, ack.Revision)
		}
	}
	return nil
}

// down records that the members of nodes cannot answer, until the function is called that
// it returns.
func (w *world) down(nodes ...*node) (up func()) {
	from := w.rec.now()
	return func() {
		to := w.rec.now()
		w.rec.add(func(h *judge.History) {
			for _, n := range nodes {
				h.Downs = append(h.Downs, judge.Down{Node: n.name(), Span: judge.Span{From: from, To: to}})
			}
		})
	}
}
