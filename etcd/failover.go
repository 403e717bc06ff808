package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// This file decides which server is asked. A Client uses one at a time: the first endpoint,
// until that is a learner, has no leader, or does not answer. Then it uses the next one, at
// once, and watches move with it. It returns to the first endpoint when that works again.

const (
	// returnPause is how long the first endpoint is left alone after it failed.
	returnPause = 5 * time.Second
	// When all servers failed, a read asks them all again, after a pause.
	minRoundPause = 50 * time.Millisecond
	maxRoundPause = time.Second
)

// links are the connections to all servers.
type links struct {
	mu     sync.Mutex // mu guards the fields below
	all    []*link    // the first is preferred
	active int
	left   time.Time         // when the first was left
	moves  *event.Value[int] // how often the active link changed
}

// SetEndpoints replaces the endpoints. The first is preferred. The connections to the
// ones that stay are kept.
func (c *Client) SetEndpoints(endpoints []string) error {
	if len(endpoints) == 0 {
		return errors.New("etcd client: no endpoint")
	}
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	var now, added, dropped []*link
	for _, endpoint := range endpoints {
		i := slices.IndexFunc(c.links.all, func(l *link) bool { return l.endpoint == endpoint })
		if i >= 0 {
			now = append(now, c.links.all[i])
			continue
		}
		l, err := c.dial(endpoint)
		if err != nil {
			closeLinks(added)
			return err
		}
		now, added = append(now, l), append(added, l)
	}
	for _, l := range c.links.all {
		if !slices.Contains(now, l) {
			dropped = append(dropped, l)
		}
	}
	c.links.replace(now)
	if len(dropped) > 0 {
		c.closing.Go(func() { closeLinks(dropped) })
	}
	return nil
}

// replace needs mu.
func (ls *links) replace(now []*link) {
	var before *link
	if len(ls.all) > 0 {
		before = ls.all[ls.active]
	}
	// A server that works stays in use, until returnToFirst sees that the first works too.
	ls.all, ls.active = now, max(0, slices.Index(now, before))
	if ls.all[ls.active] != before {
		ls.moved()
	}
}

func (ls *links) moved() { event.Update(ls.moves, func(n int) int { return n + 1 }) }

// Endpoints returns the endpoints, the preferred one first.
func (c *Client) Endpoints() []string {
	var out []string
	for _, l := range c.allLinks() {
		out = append(out, l.endpoint)
	}
	return out
}

// Endpoint returns the endpoint that is in use.
func (c *Client) Endpoint() string { return c.link().endpoint }

func (c *Client) allLinks() []*link {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	return slices.Clone(c.links.all)
}

// link returns the link that is in use.
func (c *Client) link() *link {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	return c.links.all[c.links.active]
}

// linkTo returns a link to a server, whichever is in use; done ends one that is not of
// the endpoints.
func (c *Client) linkTo(endpoint string) (l *link, done func(), err error) {
	for _, l := range c.allLinks() {
		if l.endpoint == endpoint {
			return l, func() {}, nil
		}
	}
	if l, err = c.dial(endpoint); err != nil {
		return nil, nil, err
	}
	return l, func() { closeLinks([]*link{l}) }, nil
}

// Reconnect connects at once to the servers that were not reached, without the pause that grows
// with each attempt: the caller knows that one of them can be reached now.
func (c *Client) Reconnect() {
	for _, l := range c.allLinks() {
		l.client.ActiveConnection().ResetConnectBackoff()
	}
}

// movingLink returns the link that is in use, and a channel that is closed when
// another one is.
func (c *Client) movingLink() (*link, <-chan struct{}) {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	_, moved := c.links.moves.Load()
	return c.links.all[c.links.active], moved
}

// leave makes another link the one in use, unless one is in use already: the link to a server
// that knows a new leader, or the next one.
func (c *Client) leave(l *link, why error) {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	if len(c.links.all) < 2 || c.links.all[c.links.active] != l {
		return
	}
	to := (c.links.active + 1) % len(c.links.all)
	if elected, is := errors.AsType[*newLeaderError](why); is {
		if i := slices.Index(c.links.all, elected.at); i >= 0 {
			to = i
		}
	}
	if to == c.links.active {
		return
	}
	if c.links.active == 0 {
		c.links.left = time.Now()
	}
	c.links.active = to
	c.links.moved()
	c.log.Debug("etcd server left for another", "from", l.endpoint, "to", c.links.all[c.links.active].endpoint, "reason", why)
}

var errConnectionEnded = errors.New("the connection has ended")

// lost records the end of a connection. The watches on it move at once.
func (c *Client) lost(l *link) {
	if !c.closed.Load() {
		c.leave(l, errConnectionEnded)
	}
}

// returnToFirst uses the first endpoint again if it is a voter that has a leader.
func (c *Client) returnToFirst(ctx context.Context) {
	c.links.mu.Lock()
	first, due := c.links.all[0], c.links.active != 0 && time.Since(c.links.left) >= returnPause
	c.links.mu.Unlock()
	if !due {
		return
	}
	limited, cancel := context.WithTimeout(ctx, c.attempts[reads].first)
	defer cancel()
	resp, err := first.status(limited)
	usable := err == nil && !resp.IsLearner && resp.Leader != 0 && len(resp.Errors) == 0
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	switch {
	case c.links.all[0] != first || c.links.active == 0:
	case usable:
		c.links.active = 0
		c.links.moved()
		c.log.Debug("returned to the first etcd server", "to", first.endpoint)
	default:
		c.links.left = time.Now()
	}
}

// status asks the server for its own state. Every server answers, learners too.
func (l *link) status(ctx context.Context) (*etcdserverpb.StatusResponse, error) {
	return etcdserverpb.NewMaintenanceClient(l.client.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
}

// effect says whether a request only reads the store, or writes.
type effect int

const (
	reads  effect = iota + 1 // it can be repeated
	writes                   // it can be repeated if it was certainly not carried out
)

// ask makes a request to the server in use. If that cannot serve it, others are asked, each
// within a limit of its own, as long as repeating the request is safe. A server that is the
// only one is asked again only after its leader changed.
func ask[T any](ctx context.Context, c *Client, kind effect, request func(context.Context, *clientv3.Client) (T, error)) (T, error) {
	resp, ever, err := askInTurn(ctx, c, kind, request)
	if err != nil && !ever {
		return resp, &unsentError{err}
	}
	return resp, err
}

// askInTurn does so. It also reports whether the request was ever sent.
func askInTurn[T any](
	ctx context.Context, c *Client, kind effect, request func(context.Context, *clientv3.Client) (T, error),
) (_ T, ever bool, _ error) {
	pauses := backoff.Backoff{First: minRoundPause, Max: maxRoundPause, Jitter: backoff.Apart}
	for asked := 1; ; asked++ {
		l := c.link()
		began := time.Now()
		resp, sent, err := attempt(ctx, c, l, c.attempts[kind], request)
		ever = ever || sent
		if err == nil || !unusable(err) {
			return resp, ever, err
		}
		if ctx.Err() != nil {
			// An attempt may take as long as the whole request, which leaves no time for
			// another server. Then the next request asks another one.
			if time.Since(began) >= c.attempts[kind].first {
				c.leave(l, err)
			}
			return resp, ever, err
		}
		c.leave(l, err)
		again := c.several || kind == reads && leaderChanged(err)
		if !again || kind == writes && sent && !refused(err) {
			return resp, ever, err
		}
		if asked%len(c.allLinks()) == 0 && (kind == writes || !pauses.Sleep(ctx)) {
			return resp, ever, err
		}
	}
}

// attempt makes a request to one server within the limit of one attempt.
func attempt[T any](
	ctx context.Context, c *Client, l *link, p *patience, request func(context.Context, *clientv3.Client) (T, error),
) (T, bool, error) {
	limited, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	limited, abandon := context.WithCancelCause(limited)
	defer abandon(nil)
	stop := c.watchLeader(limited, func(elected *newLeaderError) { abandon(elected) })
	defer stop()
	tracked, saw := track(limited)
	began := time.Now()
	resp, err := request(tracked, l.client)
	if elected, is := errors.AsType[*newLeaderError](context.Cause(limited)); is && cancelled(err) {
		return resp, saw.sent.Load(), elected
	}
	p.learn(time.Since(began), err != nil && limited.Err() != nil && ctx.Err() == nil)
	if refusal := saw.refusal.Load(); refusal != nil && timedOut(err) {
		// The library repeats some requests to an only server that refuses them, up to a hundred times,
		// 25 ms apart. The time was over before that, but the server did say why.
		err = rpctypes.Error(*refusal)
	}
	return resp, saw.sent.Load(), err
}

// timedOut reports whether err is that the request's time was over.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || err != nil && codeOf(err) == codes.DeadlineExceeded
}

// cancelled reports whether err is that the request's context was cancelled.
func cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || err != nil && codeOf(err) == codes.Canceled
}

// unusable reports whether err shows that the server cannot serve requests now.
func unusable(err error) bool {
	switch {
	case expectedRefusal(err): // of a change of the members: any other server refuses it too
		return false
	case refused(err), ended(err), timedOut(err):
		return true
	}
	code := codeOf(err)
	return code == codes.Unavailable || code == codes.Canceled
}

// refused reports whether a server refused a request because it is a learner or has no
// leader. It did not carry the request out.
func refused(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrNoLeader) || isLearner(err)
}

// leaderChanged reports whether a request failed because the cluster has another leader
// now. The same server can serve the next one.
func leaderChanged(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaderChanged)
}

// raftErrors are raft's errors that etcd passes to clients without a gRPC status code. A member
// that was removed from the cluster answers with the first one until its process ends.
var raftErrors = []string{"raft: stopped", "raft proposal dropped"}

// ended reports whether a server answered that it takes no part in the consensus any more, or
// not now. It may have sent the request to the leader before that.
func ended(err error) bool {
	refusal, is := status.FromError(err)
	return is && refusal.Code() == codes.Unknown && slices.Contains(raftErrors, refusal.Message())
}

func isLearner(err error) bool {
	refusal, is := errors.AsType[rpctypes.EtcdError](err)
	return is && refusal.Error() == rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner)
}

// codeOf returns the code of an error from the library or from the wire.
func codeOf(err error) codes.Code {
	if refusal, is := errors.AsType[rpctypes.EtcdError](err); is {
		return refusal.Code()
	}
	return status.Code(err)
}

// closer is set when the client is closed: connections end then.
type closer struct {
	closed  atomic.Bool
	closing sync.WaitGroup // of links that are no longer used
}
