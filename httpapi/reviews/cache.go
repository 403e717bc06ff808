package reviews

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"sync"
	"time"
)

const (
	// staleLife is for how long an answer counts while the kube-apiserver gives no newer one.
	staleLife = time.Hour
	// patience is how long the kube-apiserver may take for an answer. patienceStale replaces it while an older
	// answer is at hand: a scrape must not wait for a timeout each time.
	patience      = 3 * time.Second
	patienceStale = time.Second
	// pause is for how long older answers are used without asking, after a question without an answer.
	pause = 5 * time.Second
	// maxFlights bounds the questions of a budget that are asked at the same moment. Vouched addresses may ask as many
	// besides: strangers whose questions hang do not keep them out.
	maxFlights = 16
	// maxEntries bounds the remembered answers. At most half of them may be a no, so that invented tokens do not
	// displace valid ones.
	maxEntries = 2048
)

// sum is the hash of a question.
type sum = [sha256.Size]byte

// cache remembers answers. An answer that says yes outlives the kube-apiserver.
type cache[V any] struct {
	life  map[bool]time.Duration // for how long a yes or a no counts without another question
	yes   func(V) bool
	count func(result string)
	// budget bounds the questions about strangers; slots hold a token for each of them that is under way, of vouched
	// addresses and of others.
	budget *budget
	slots  map[bool]chan struct{}

	mu      sync.Mutex // mu guards the fields below
	entries map[sum]*entry[V]
	noes    int       // entries whose answer is a no
	swept   time.Time // when old answers were last deleted, to keep the bounds
}

// entry is the newest answer to a question.
type entry[V any] struct {
	value  V
	at     time.Time     // when it was asked; zero: no answer yet
	flight chan struct{} // closed when the question under way ends; nil: none is
	err    error         // of the last question
	silent time.Time     // when a question last stayed without an answer
}

func newCache[V any](life map[bool]time.Duration, yes func(V) bool, count func(string)) *cache[V] {
	return &cache[V]{
		life: life, yes: yes, count: count, budget: newBudget(), entries: map[sum]*entry[V]{},
		slots: map[bool]chan struct{}{true: make(chan struct{}, maxFlights), false: make(chan struct{}, maxFlights)},
	}
}

// get returns the answer to a question about a client at an address. If it remembers none that is new enough, it asks,
// or waits for the request that asks already.
func (c *cache[V]) get(ctx context.Context, from netip.Addr, key sum, ask func(context.Context) (V, error)) (V, error) {
	c.mu.Lock()
	e := c.entries[key]
	if e == nil {
		e = &entry[V]{}
		c.entries[key] = e
	}
	if value, found := c.remembered(e, time.Now()); found {
		c.mu.Unlock()
		return value, nil
	}
	if e.flight == nil {
		e.flight = make(chan struct{})
		known := c.outlives(e, time.Now())
		c.mu.Unlock()
		if known { // an older answer says yes: this is no stranger, and does not wait for long
			return c.land(key, e, fly(ctx, patienceStale, ask))
		}
		return c.land(key, e, c.flyForStranger(ctx, from, ask))
	}
	flight := e.flight
	c.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.value, e.err
}

// remembered returns an answer that counts now. The caller holds mu.
func (c *cache[V]) remembered(e *entry[V], now time.Time) (V, bool) {
	if e.at.IsZero() {
		return e.value, false
	}
	age := now.Sub(e.at)
	if age < c.life[c.yes(e.value)] {
		return e.value, true
	}
	if c.outlives(e, now) && now.Sub(e.silent) < pause {
		c.count(resultStale)
		return e.value, true
	}
	return e.value, false
}

// outlives reports whether an answer counts while the kube-apiserver gives no newer one.
func (c *cache[V]) outlives(e *entry[V], now time.Time) bool {
	return !e.at.IsZero() && c.yes(e.value) && now.Sub(e.at) < staleLife
}

// flown is the result of a question.
type flown[V any] struct {
	value V
	asked time.Time
	err   error
}

// flyForStranger asks, if the budget allows it, and fewer than the allowed number of such questions are under way.
func (c *cache[V]) flyForStranger(ctx context.Context, from netip.Addr, ask func(context.Context) (V, error)) flown[V] {
	vouched, ok := c.budget.admit(from)
	if !ok {
		return flown[V]{err: ErrBusy}
	}
	slots := c.slots[vouched]
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
		return fly(ctx, patience, ask)
	default:
		return flown[V]{err: ErrBusy}
	}
}

func fly[V any](ctx context.Context, within time.Duration, ask func(context.Context) (V, error)) flown[V] {
	// Others wait for this answer: it does not end with the request that asks.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	asked := time.Now()
	value, err := ask(ctx)
	return flown[V]{value, asked, err}
}

// land keeps an answer for all who wait. If the question failed, it returns the older answer, if that still
// counts, or the error.
func (c *cache[V]) land(key sum, e *entry[V], f flown[V]) (V, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.flight)
	e.flight, e.err = nil, nil
	now := time.Now()
	if f.err != nil {
		if e.silent = now; c.outlives(e, now) {
			c.count(resultStale)
			return e.value, nil
		}
		if errors.Is(f.err, ErrBusy) {
			c.count(resultRefused)
		} else {
			c.count(resultFailed)
		}
		c.remove(key, e)
		var none V
		e.value, e.err = none, f.err
		return none, f.err
	}
	c.count(resultOf[c.yes(f.value)])
	if !e.at.IsZero() && !c.yes(e.value) {
		c.noes--
	}
	if !c.yes(f.value) {
		c.noes++
	}
	e.value, e.at = f.value, f.asked
	c.trim(key, e, now)
	return f.value, nil
}

func (c *cache[V]) remove(key sum, e *entry[V]) {
	if c.entries[key] != e {
		return
	}
	delete(c.entries, key)
	if !e.at.IsZero() && !c.yes(e.value) {
		c.noes--
	}
}

// trim keeps the bounds, once the entry of a key holds a new answer. The caller holds mu.
func (c *cache[V]) trim(key sum, added *entry[V], now time.Time) {
	full := func() bool { return len(c.entries) > maxEntries || c.noes > maxEntries/2 }
	if full() && now.Sub(c.swept) >= time.Second { // not at each invented token
		c.swept = now
		for k, e := range c.entries {
			if !e.at.IsZero() && now.Sub(e.at) >= c.life[c.yes(e.value)] && !c.outlives(e, now) {
				c.remove(k, e)
			}
		}
	}
	switch {
	case !full():
	case !c.yes(added.value):
		c.remove(key, added) // it is asked again
	default:
		for k, e := range c.entries { // any one: it is asked again
			if k != key && !e.at.IsZero() {
				c.remove(k, e)
				return
			}
		}
	}
}
