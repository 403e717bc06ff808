package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// Session is a lease that is kept alive (docs/protocol.md#sessions). It is valid for its TTL,
// less a margin, by this machine's monotonic clock. The time counts from the moment before the
// last successful keep-alive was sent. So while Valid returns true, etcd still keeps the lease,
// unless this machine was suspended.
type Session struct {
	client *Client
	lease  clientv3.LeaseID
	ttl    time.Duration
	checks sync.WaitGroup // of the store, after an interruption
	owner  *Session       // whose lease it shares; nil: the lease is its own
	lose   context.CancelCauseFunc
	// revoked is closed when the lease was revoked, or that was given up; nil: it is not its own.
	revoked chan struct{}
	*validity

	// The mutex of validity guards the fields below.
	beat   time.Time
	lasts  bool // it does not end when Valid turns false
	over   bool // it shares a lease, and ended before that did: it is never valid again
	shares shares
}

// validity is until when a lease is certain to live. All who share the lease share it.
type validity struct {
	mu         sync.Mutex // mu guards validUntil
	validUntil time.Time
}

const (
	// revokeTimeout bounds the clean-up at every exit. disconnectedRevokeTimeout
	// does if etcd did not answer the last request.
	revokeTimeout             = 2 * time.Second
	disconnectedRevokeTimeout = 200 * time.Millisecond
	firstRevokePause          = 20 * time.Millisecond
	// retryKeepAlive is the first pause after a keep-alive without an answer, and
	// retriesPerLease how many pauses fit into a TTL at least.
	retryKeepAlive  = 200 * time.Millisecond
	retriesPerLease = 4
	// watchdogLeases is how many TTLs a holder may go without Beat.
	watchdogLeases = 2
)

// margin is subtracted from a TTL, so that a lease ends for this machine before it ends in
// etcd.
func margin(ttl time.Duration) time.Duration { return max(time.Second, ttl/10) }

// keepAlivePause is the time between two keep-alives: 4 s of a lease of 10 s, which
// is valid for 9. If one is not answered within a third of the TTL, there is time for
// another.
func keepAlivePause(ttl time.Duration) time.Duration { return (ttl - margin(ttl)) * 4 / 9 }

// WithSession grants a lease of ttl, keeps it alive while hold runs, and revokes it afterwards,
// whatever the outcome. The context of hold ends when the lease ends, or is not confirmed in
// time (cause ErrSessionLost). It also ends when hold does not call Beat for two TTLs (cause
// ErrNoProgress). WithSession returns after hold: hold's error, or the error of the grant. See
// also Outlast.
func (c *Client) WithSession(ctx context.Context, ttl time.Duration, hold func(context.Context, *Session) error) error {
	s, err := c.grant(ctx, ttl)
	if err != nil {
		return err
	}
	defer c.hold(s)()
	c.revokeLeft(ctx)
	held, lose := context.WithCancelCause(ctx)
	s.lose = lose
	var keeper sync.WaitGroup
	// Those who share the lease end with it, also if hold hangs: nothing ends them later.
	keeper.Go(func() { lose(s.keepAlive(held)); s.loseShares() })
	// Last in, first out: the keeper, and all who share the lease, end before it is revoked.
	defer close(s.revoked)
	defer s.revoke(ctx)
	defer s.awaitShares()
	defer keeper.Wait()
	defer lose(nil)
	return hold(held, s)
}

// grant requests a lease within the client's time limit. The library's grant has no limit
// (docs/upstream.md#etcd-lease-grant).
func (c *Client) grant(ctx context.Context, ttl time.Duration) (*Session, error) {
	sent := time.Now()
	// It can be repeated: a lease that no key is on ends by itself.
	resp, err := do(ctx, c, reads, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		return client.Grant(ctx, int64(ttl/time.Second))
	}, func(resp *clientv3.LeaseGrantResponse) *etcdserverpb.ResponseHeader { return resp.ResponseHeader })
	if err != nil {
		return nil, fmt.Errorf("grant a lease: %w", err)
	}
	s := &Session{
		client: c, lease: resp.ID, ttl: time.Duration(resp.TTL) * time.Second, validity: new(validity), revoked: make(chan struct{}),
	}
	s.extend(sent, s.ttl)
	s.Beat()
	return s, nil
}

// PutFor writes a key that etcd deletes after ttl, which is in whole seconds. The key does
// not end with this client.
func (c *Client) PutFor(ctx context.Context, key, value string, ttl time.Duration) error {
	s, err := c.grant(ctx, ttl)
	if err != nil {
		return err
	}
	_, err = c.Txn(ctx, nil, []clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(s.Lease()))}, nil)
	return err
}

// Lease returns the ID of the lease.
func (s *Session) Lease() clientv3.LeaseID { return s.lease }

// TTL returns the time to live that etcd granted.
func (s *Session) TTL() time.Duration { return s.ttl }

// ValidUntil returns the time, on the monotonic clock, until which the lease is
// certain to live. Each answered keep-alive moves it. Zero: the session has ended.
func (s *Session) ValidUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return time.Time{}
	}
	return s.validUntil
}

// Valid reports whether the lease is certain to live now.
func (s *Session) Valid() bool { return time.Now().Before(s.ValidUntil()) }

// Outlast makes the session outlast a time in which etcd does not answer: it ends when etcd
// says that the lease ended, and not when Valid turns false. It is for holders whose key means
// no more than that they run. If etcd was off, or was overloaded, it may still know their
// leases; new ones for all of them would keep it overloaded.
func (s *Session) Outlast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts = true
}

// Rely undoes Outlast. It reports whether the session is valid; if not, nothing changes.
func (s *Session) Rely() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !time.Now().Before(s.validUntil) {
		return false
	}
	s.lasts = false
	return true
}

// outlasts reports whether the session goes on although it is not valid.
func (s *Session) outlasts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lasts && !time.Now().Before(s.validUntil)
}

// Beat records that the holder makes progress. Without a call for two TTLs the
// session ends, so that a holder that hangs does not keep the lease for ever.
func (s *Session) Beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = time.Now()
}

// extend records a keep-alive that was sent at sent and answered with ttl. If this machine was suspended
// meanwhile, the lease may be no longer certain to live all the same.
func (s *Session) extend(sent time.Time, ttl time.Duration) {
	s.mu.Lock()
	s.validUntil = sent.Add(ttl - margin(ttl))
	s.mu.Unlock()
	s.endShares()
}

// keepAlive returns why the session ended.
func (s *Session) keepAlive(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); s.checks.Wait() }()
	wait := keepAlivePause(s.ttl)
	retries := backoff.Backoff{First: retryKeepAlive, Max: s.ttl / retriesPerLease, Jitter: backoff.Apart}
	for backoff.Sleep(ctx, s.atMost(wait)) {
		if s.idle() {
			return ErrNoProgress
		}
		s.endShares()
		err := s.keepAliveOnce(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err == nil:
			wait = keepAlivePause(s.ttl)
			retries.Reset()
		case leaseEnded(err):
			return fmt.Errorf("%w: etcd no longer knows the lease", ErrSessionLost)
		case !s.Valid() && !s.outlasts():
			return fmt.Errorf("%w: not confirmed in time: %w", ErrSessionLost, err)
		default:
			s.endShares()
			wait = retries.Next()
		}
	}
	return ctx.Err()
}

// atMost returns the pause, or the time until the session ends, if that is shorter.
func (s *Session) atMost(pause time.Duration) time.Duration {
	if s.outlasts() {
		return pause
	}
	return min(pause, time.Until(s.ValidUntil()))
}

// attemptEnds returns how long to wait for the answer to a keep-alive that is sent now.
func (s *Session) attemptEnds(now time.Time) time.Time {
	limit := s.client.attempts[reads].limit()
	if s.outlasts() {
		return now.Add(min(s.ttl, limit))
	}
	return now.Add(min(s.ttl/3, limit, s.ValidUntil().Sub(now)))
}

// keepAliveOnce makes one attempt on its own stream. The library's KeepAliveOnce
// retries without end while etcd is unreachable (docs/upstream.md#etcd-keepalive).
func (s *Session) keepAliveOnce(ctx context.Context) error {
	sent, l := time.Now(), s.client.link()
	limited, cancel := context.WithDeadline(clientv3.WithRequireLeader(ctx), s.attemptEnds(sent))
	defer cancel()
	resp, err := s.exchange(limited, l)
	s.client.observe(ctx, KeepAlive, sent, err)
	if err != nil {
		if ctx.Err() == nil && unusable(err) {
			s.client.leave(l, err)
		}
		s.client.failed(ctx, err)
		return err
	}
	if resp.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	s.extend(sent, time.Duration(resp.TTL)*time.Second)
	known := s.client.contact.Get()
	s.client.seen(resp.Header.GetRevision())
	if !known.Connected || resp.Header.GetRevision() < known.Revision {
		// The connection was interrupted, or the member lags behind. Only a
		// linearizable read shows whether the store went back. It must not delay the
		// next keep-alive.
		s.checks.Go(func() { s.client.recheck(ctx) })
	}
	return nil
}

func (s *Session) exchange(ctx context.Context, l *link) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	stream, err := etcdserverpb.NewLeaseClient(l.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(s.lease)}); err != nil {
		return nil, err
	}
	resp, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	// The stream is no longer needed; its context ends in any case.
	_ = stream.CloseSend()
	return resp, nil
}

// revoke ends the lease, and so deletes all keys on it. It must also run after the end of ctx,
// so it uses its own context with a time limit. If the server that it asks is stopping too,
// another one may answer.
func (s *Session) revoke(ctx context.Context) {
	limit := s.client.cleanUpTime()
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	pauses := backoff.Backoff{First: firstRevokePause, Max: limit / 4, Jitter: backoff.Apart}
	for {
		l := s.client.link()
		err := revoke(clean, l, s.lease, limit/2)
		if err == nil || leaseEnded(err) {
			return
		}
		if clean.Err() == nil && unusable(err) {
			s.client.leave(l, err)
		}
		if !pauses.Sleep(clean) {
			s.client.leaveLease(s.lease)
			s.client.log.Info("lease not revoked, it ends by itself", "lease", int64(s.lease), "ttl", s.ttl, "err", err)
			return
		}
	}
}

// cleanUpTime returns how long a clean-up may take.
func (c *Client) cleanUpTime() time.Duration {
	if !c.contact.Get().Connected {
		return disconnectedRevokeTimeout
	}
	return revokeTimeout
}

func revoke(ctx context.Context, l *link, lease clientv3.LeaseID, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := l.client.Revoke(ctx, lease)
	return err
}

// leaveLease notes a lease that could not be revoked.
func (c *Client) leaveLease(lease clientv3.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, lease)
}

// revokeLeft revokes the leases that were left when etcd did not answer. An etcd that was
// off gives each lease its full TTL again: a leader's key would stay, and no node lead, for
// as long.
func (c *Client) revokeLeft(ctx context.Context) {
	c.mu.Lock()
	left := c.left
	c.left = nil
	c.mu.Unlock()
	for _, lease := range left {
		if err := revoke(ctx, c.link(), lease, revokeTimeout/2); err != nil && !leaseEnded(err) {
			c.log.Debug("lease not revoked, it ends by itself", "lease", int64(lease), "err", err)
		}
	}
}

// leaseEnded reports whether err means that etcd does not know the lease. Errors
// from the wire become comparable by rpctypes.Error.
func leaseEnded(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }
