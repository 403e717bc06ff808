package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// This file lets more than one part of a sidecar keep keys on one lease
// (docs/protocol.md#sessions).

// shares are those who share the lease of a session.
type shares struct {
	all   []*Session
	none  bool           // it is not shared any more
	ended sync.WaitGroup // of all
}

// Share runs hold with the lease of s, which must be a session of WithSession. Hold gets a session
// with an Outlast, a Rely and a Beat of its own. Its context ends with ctx and with s. If it relies on
// the lease, it also ends when Valid turns false. A hold without Beat for two TTLs ends s.
//
// The lease lives on when hold returns. So hold must delete its keys before that, by Delete. If the lease
// is given up, Share returns after it was revoked. So hold's keys have ended then, or the lease is no
// longer certain to live.
func (s *Session) Share(ctx context.Context, hold func(context.Context, *Session) error) error {
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	part := &Session{client: s.client, lease: s.lease, ttl: s.ttl, owner: s, lose: lose, validity: s.validity}
	part.Beat()
	if !s.enter(part) {
		return fmt.Errorf("%w: the lease is given up", ErrSessionLost)
	}
	defer s.awaitRevoked() // it is revoked after exit
	defer s.exit(part)
	return hold(held, part)
}

func (s *Session) enter(part *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shares.none {
		return false
	}
	s.shares.all = append(s.shares.all, part)
	s.shares.ended.Add(1)
	return true
}

func (s *Session) exit(part *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part.over = true
	s.shares.all = slices.DeleteFunc(s.shares.all, func(o *Session) bool { return o == part })
	s.shares.ended.Done()
}

// idle reports whether the holder, or one that shares the lease, did not call Beat for two TTLs.
func (s *Session) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	hangs := func(o *Session) bool { return time.Since(o.beat) > watchdogLeases*s.ttl }
	return hangs(s) || slices.ContainsFunc(s.shares.all, hangs)
}

// endShares ends those that rely on the lease if it is not certain to live.
func (s *Session) endShares() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.validUntil) {
		return
	}
	for _, part := range s.shares.all {
		if !part.lasts {
			part.over = true
			part.lose(fmt.Errorf("%w: not confirmed in time", ErrSessionLost))
		}
	}
}

// loseShares ends all who share the lease.
func (s *Session) loseShares() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.none = true
	for _, part := range s.shares.all {
		part.lose(fmt.Errorf("%w: the lease is given up", ErrSessionLost))
	}
}

// awaitShares ends all who share the lease, and waits for them: what they do relies on their keys. One
// that hangs does nothing any more when the lease is no longer certain to live.
func (s *Session) awaitShares() {
	s.loseShares()
	left := make(chan struct{})
	go func() { s.shares.ended.Wait(); close(left) }()
	select {
	case <-left:
	case <-time.After(time.Until(s.ValidUntil())):
	}
}

// End ends the session, and all who share its lease. The lease is revoked.
func (s *Session) End(why error) {
	if s.owner != nil {
		s = s.owner
	}
	s.mu.Lock()
	s.shares.none = true
	s.mu.Unlock()
	s.lose(fmt.Errorf("%w: %w", ErrSessionLost, why))
}

// givenUp reports whether the lease that s shares is about to be revoked.
func (s *Session) givenUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner != nil && s.owner.shares.none
}

// awaitRevoked returns when the lease of s is revoked, if it is given up, or is no longer certain to live.
func (s *Session) awaitRevoked() {
	s.mu.Lock()
	waits := s.shares.none
	s.mu.Unlock()
	if !waits {
		return
	}
	select {
	case <-s.revoked:
	case <-time.After(time.Until(s.ValidUntil())):
	}
}

// Delete deletes a key of a session that shares its lease. If etcd does not confirm that it deleted the
// key, which has this create revision, or that there is no key of that name, it ends the session: the
// lease would keep the key for as long as its owner runs. Like a revocation, it also runs after the end
// of ctx, within a time limit.
func (s *Session) Delete(ctx context.Context, key string, created int64) {
	limit := s.client.cleanUpTime()
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	pauses := backoff.Backoff{First: firstRevokePause, Max: limit / 4, Jitter: backoff.Apart}
	for !s.givenUp() {
		resp, err := s.client.Txn(clean,
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", created)},
			[]clientv3.Op{clientv3.OpDelete(key)}, []clientv3.Op{clientv3.OpGet(key, clientv3.WithCountOnly())})
		switch {
		case err == nil && (resp.Succeeded || resp.Responses[0].GetResponseRange().Count == 0):
			return
		case err == nil:
			s.End(fmt.Errorf("the key %q is another one", key))
			return
		case !pauses.Sleep(clean):
			s.End(fmt.Errorf("etcd does not confirm that it deleted a key: %w", err))
			return
		}
	}
}

// Linger returns a context for a write that must not end without its answer when a sidecar stops: it ends
// with ctx, but later by the time that a clean-up may take.
func (s *Session) Linger(ctx context.Context) (context.Context, context.CancelFunc) {
	lingers, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-lingers.Done():
		case <-time.After(s.client.cleanUpTime()):
			cancel()
		}
	})
	return lingers, func() { stop(); cancel() }
}

// NotExecuted reports whether an error of a request shows that etcd did not execute it, and will not.
func NotExecuted(err error) bool {
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		return true
	}
	switch codeOf(err) {
	case codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition:
		return true
	default: // it may come from a request that is executed later
		return false
	}
}
