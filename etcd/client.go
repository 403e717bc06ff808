package etcd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/lockstep-dev/lockstep/event"
)

// Config configures a Client. Endpoints are required.
type Config struct {
	Endpoints []string // URLs; at least one. The first is preferred
	CAFile    string   // PEM; empty: the system's CAs
	CertFile  string   // PEM; empty: no client certificate
	KeyFile   string   // PEM, with CertFile
	// Prefix begins all keys. NewClient adds a missing slash at its end.
	Prefix string
	// RequestTimeout bounds each single request. Zero: 5 s.
	RequestTimeout time.Duration
	// AttemptTimeout bounds each attempt of a request, of which each is made to another
	// server: less than an election takes. When none was answered for four of these times,
	// further ones may take longer. A write is attempted again only if the first attempt
	// was certainly not carried out. Zero: RequestTimeout.
	AttemptTimeout time.Duration
	// Late allows that the files do not exist yet. No connection succeeds before they do.
	Late bool
	// Advice is the remedy for each fault that Diagnose finds. Zero: the advice for an etcd
	// that runs elsewhere.
	Advice Advice
	Log    *slog.Logger // nil: none
}

const (
	defaultRequestTimeout = 5 * time.Second
	dialTimeout           = 5 * time.Second
	// A connection without an answer is closed after the sum of these two. The
	// client then connects to another member.
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
	// The pauses between two attempts to connect.
	minReconnectDelay = 100 * time.Millisecond
	maxReconnectDelay = 2 * time.Second
)

// Client makes requests to etcd. It knows when etcd last answered, and at which
// revision. Its methods may be called from many goroutines.
type Client struct {
	links    links
	several  bool             // another server may be asked
	tls      *fileCredentials // nil: none
	prefix   string
	timeout  time.Duration        // of a request
	attempts map[effect]*patience // made once, and never changed
	advice   Advice
	log      *slog.Logger
	contact  *event.Value[Contact]
	rewound  *event.Value[int]

	observer    atomic.Pointer[Observer]
	differences atomic.Int64
	rechecking  atomic.Bool
	closer

	mu        sync.Mutex // mu guards the fields below, and that the store going back is counted once
	cluster   uint64     // the ID of the etcd cluster in its latest answer; 0: none
	term      uint64     // the newest of that cluster's leaders in an answer; 0: none
	followers []*follower
	checked   time.Time          // when the latest Check began
	left      []clientv3.LeaseID // of ended sessions; they were not revoked
	sessions  map[*Session]bool  // that are held
}

// Contact describes the client's connection to etcd.
type Contact struct {
	Connected bool      // etcd answered the last request, even with a refusal
	Last      time.Time // when etcd last answered; zero: never
	Revision  int64     // the highest store revision seen since the store last went back
	Problem   string    // why the last request failed; empty: it succeeded
	Refused   int64     // how many requests etcd answered with an error
}

// Reached reports whether etcd has ever answered.
func (c Contact) Reached() bool { return !c.Last.IsZero() }

// NewClient returns a client. It reads the certificate files but does not connect,
// so an unreachable etcd is no error.
func NewClient(cfg Config) (*Client, error) {
	creds, err := newCredentials(cfg)
	if err != nil {
		return nil, err
	}
	cfg.RequestTimeout = cmp.Or(cfg.RequestTimeout, defaultRequestTimeout)
	c := &Client{
		several:  len(cfg.Endpoints) > 1 || cfg.AttemptTimeout > 0,
		tls:      creds,
		prefix:   strings.TrimSuffix(cfg.Prefix, "/") + "/",
		timeout:  cfg.RequestTimeout,
		attempts: map[effect]*patience{reads: newPatience(cfg), writes: newPatience(cfg)},
		advice:   cmp.Or(cfg.Advice, adviceElsewhere),
		log:      cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
		contact:  event.New(Contact{}),
		rewound:  event.New(0),
	}
	c.links.moves = event.New(0)
	return c, c.SetEndpoints(cfg.Endpoints)
}

// Prefix returns the prefix of all keys. It ends with a slash.
func (c *Client) Prefix() string { return c.prefix }

// Close ends all connections.
func (c *Client) Close() error {
	c.closed.Store(true)
	closeLinks(c.allLinks())
	c.closing.Wait()
	return nil
}

// Contact reports the state of the client's connection, and each change of it.
func (c *Client) Contact() *event.Value[Contact] { return c.contact }

// Rewound counts how often the store went back. That happens when etcd is restored
// from a backup: later writes are lost (docs/protocol-nodes.md#went-back).
func (c *Client) Rewound() *event.Value[int] { return c.rewound }

// Get reads keys, linearizably.
func (c *Client) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := do(ctx, c, reads, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
		return client.Get(ctx, key, opts...)
	}, func(resp *clientv3.GetResponse) *etcdserverpb.ResponseHeader { return resp.Header })
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	return resp, nil
}

// Txn runs a transaction: then if all conds hold, otherwise if not. After an error the
// transaction may have been committed or not.
func (c *Client) Txn(ctx context.Context, conds []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	rewinds := c.rewound.Get() // before the request: the answer may come from the older store
	kind := effectOf(then, otherwise)
	resp, err := do(ctx, c, kind, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(conds...).Then(then...).Else(otherwise...).Commit()
	}, func(resp *clientv3.TxnResponse) *etcdserverpb.ResponseHeader { return resp.Header })
	if err == nil && resp.Succeeded {
		c.wrote(then, At{rewinds, resp.Header.Revision})
	}
	return resp, err
}

// effectOf reports whether a transaction only reads, or writes.
func effectOf(ops ...[]clientv3.Op) effect {
	for _, op := range slices.Concat(ops...) {
		if !op.IsGet() {
			return writes
		}
	}
	return reads
}

// Write runs ops, reads or writes, if all conds hold, and returns ErrChanged if one of them does not.
// After any other error ops may have been committed or not.
func (c *Client) Write(ctx context.Context, conds []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := c.Txn(ctx, conds, ops, nil)
	if err == nil && !resp.Succeeded {
		err = ErrChanged
	}
	return resp, err
}

// do makes one request within the time limit. From the header of the answer it updates Contact and the
// store's revision.
func do[T any](
	ctx context.Context, c *Client, kind effect,
	request func(context.Context, *clientv3.Client) (T, error), header func(T) *etcdserverpb.ResponseHeader,
) (resp T, err error) {
	limited, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), c.timeout)
	defer cancel()
	before, rewinds := c.contact.Get().Revision, c.rewound.Get()
	if err = c.tls.missing(); err != nil {
		err = &unsentError{err}
	} else {
		begin := time.Now()
		resp, err = ask(limited, c, kind, request)
		c.observe(ctx, verbs[kind], begin, err)
	}
	if err != nil {
		if answered := c.failed(ctx, err); !answered && ctx.Err() == nil {
			err = fmt.Errorf("no answer from etcd at %s: %w", strings.Join(c.Endpoints(), ", "), err)
		}
		return resp, err
	}
	c.answered(header(resp), before, rewinds)
	return resp, nil
}

// answered records a linearizable answer. before is the highest revision that was
// known before the request was sent. A linearizable answer with a lower one, or from
// another etcd cluster, means that the store went back.
func (c *Client) answered(header *etcdserverpb.ResponseHeader, before int64, rewinds int) {
	c.mu.Lock()
	moved := c.cluster != 0 && c.cluster != header.ClusterId
	if c.cluster != header.ClusterId {
		c.cluster, c.term = header.ClusterId, 0
	}
	c.term = max(c.term, header.RaftTerm)
	c.mu.Unlock()
	switch {
	case header.Revision < before:
		c.wentBack(rewinds, header.Revision, "its revision is lower than before")
	case moved:
		c.wentBack(rewinds, header.Revision, "it is another etcd cluster")
	}
	c.seen(header.Revision)
}

// wentBack counts that the store went back, unless it was counted since rewinds was
// loaded.
func (c *Client) wentBack(rewinds int, revision int64, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rewound.Get() != rewinds {
		return
	}
	c.log.Warn("etcd went back to an older state, as after a restore from a backup", "before", c.contact.Get().Revision, "revision", revision, "reason", why)
	event.Update(c.contact, func(contact Contact) Contact {
		contact.Revision = revision
		return contact
	})
	c.rewound.Set(rewinds + 1)
}

// seen records an answer, linearizable or not.
func (c *Client) seen(revision int64) {
	event.Update(c.contact, func(contact Contact) Contact {
		return Contact{Connected: true, Last: time.Now(), Revision: max(contact.Revision, revision), Refused: contact.Refused}
	})
}

// failed records a request that failed, and reports whether etcd answered it: a
// refusal is an answer. A request that the caller cancelled shows nothing of etcd.
func (c *Client) failed(ctx context.Context, err error) (answered bool) {
	if ctx.Err() != nil {
		return false
	}
	answered = isAnswer(err)
	event.Update(c.contact, func(contact Contact) Contact {
		contact.Connected, contact.Problem = answered, err.Error()
		if answered {
			contact.Last = time.Now()
			contact.Refused++
		}
		return contact
	})
	return answered
}

// isAnswer reports whether an error is etcd's answer.
func isAnswer(err error) bool {
	code := codeOf(err)
	return code != codes.Unavailable && code != codes.Canceled && !timedOut(err) && !refused(err) && !ended(err)
}
