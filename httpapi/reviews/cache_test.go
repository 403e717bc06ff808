package reviews

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

var errAway = errors.New("the kube-apiserver does not answer")

// asked is a cache with the answers to its questions, and how often they are asked.
type asked struct {
	*cache[bool]
	times  atomic.Int64
	answer func(context.Context) (bool, error)
	counts map[string]int
}

func newAsked(answer func(context.Context) (bool, error)) *asked {
	a := &asked{answer: answer, counts: map[string]int{}}
	a.cache = newCache(map[bool]time.Duration{true: 10 * time.Second, false: 5 * time.Second}, func(yes bool) bool { return yes }, func(result string) { a.counts[result]++ })
	return a
}

func (a *asked) ask(ctx context.Context, about string) (bool, error) {
	return a.askFrom(ctx, netip.IPv6Loopback(), about)
}

func (a *asked) askFrom(ctx context.Context, from netip.Addr, about string) (bool, error) {
	return a.get(ctx, from, sha256.Sum256([]byte(about)), func(ctx context.Context) (bool, error) {
		a.times.Add(1)
		return a.answer(ctx)
	})
}

func (a *asked) want(t *testing.T, wantYes bool, wantErr error, wantTimes int) {
	t.Helper()
	yes, err := a.ask(t.Context(), "x")
	if yes != wantYes || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) || int(a.times.Load()) != wantTimes {
		t.Errorf("got %t, %v after %d questions, want %t, %v after %d", yes, err, a.times.Load(), wantYes, wantErr, wantTimes)
	}
}

// An answer is used again for its life, and then the question is asked again.
func TestCache_life(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := true
		a := newAsked(func(context.Context) (bool, error) { return yes, nil })
		a.want(t, true, nil, 1)
		<-time.After(10*time.Second - 1)
		a.want(t, true, nil, 1)
		yes = false
		<-time.After(1)
		a.want(t, false, nil, 2) // a right that was taken away
		<-time.After(5*time.Second - 1)
		a.want(t, false, nil, 2)
		yes = true
		<-time.After(1)
		a.want(t, true, nil, 3)
	})
}

// A yes outlives the kube-apiserver by an hour, and no request waits for long; a no does not.
func TestCache_outlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, errAway }
		a := newAsked(func(context.Context) (bool, error) { return true, nil })
		a.want(t, true, nil, 1)
		first := time.Now()
		a.answer = hangs
		for times := 2; time.Since(first) < time.Hour-time.Minute; times++ {
			<-time.After(10 * time.Second)
			before := time.Now()
			a.want(t, true, nil, times)
			if took := time.Since(before); took > patienceStale {
				t.Fatalf("it took %s", took)
			}
			a.want(t, true, nil, times) // the next one does not ask
		}
		<-time.After(time.Until(first.Add(time.Hour)))
		times := int(a.times.Load())
		a.want(t, false, errAway, times+1)
		a.want(t, false, errAway, times+2)

		a.answer = func(context.Context) (bool, error) { return false, nil }
		a.want(t, false, nil, times+3)
		a.answer = hangs
		<-time.After(5 * time.Second)
		a.want(t, false, errAway, times+4)
		a.answer = func(context.Context) (bool, error) { return true, nil }
		a.want(t, true, nil, times+5)
		if a.counts[resultStale] == 0 || a.counts[resultFailed] != 3 || a.counts[resultNo] != 1 {
			t.Errorf("got %v", a.counts)
		}
	})
}

// A hundred requests ask one question together, and the one that asks does not take its answer
// with it when it leaves.
func TestCache_oneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		a := newAsked(func(ctx context.Context) (bool, error) {
			select {
			case <-answered:
				return true, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		})
		var all sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() { _, _ = a.ask(ctx, "x") })
		synctest.Wait()
		for range 99 {
			all.Go(func() {
				if yes, err := a.ask(t.Context(), "x"); !yes || err != nil {
					t.Errorf("got %t, %v", yes, err)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(answered)
		all.Wait()
		a.want(t, true, nil, 1)
	})
}

// Invented tokens are asked about sixteen at a time, keep at most half of the memory, and keep no
// client out that is known.
func TestCache_strangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(func(context.Context) (bool, error) { return true, nil })
		a.want(t, true, nil, 1)
		<-time.After(11 * time.Second)
		a.answer = func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, errAway }
		var all sync.WaitGroup
		for i := range 3 * maxFlights {
			all.Go(func() { _, _ = a.askFrom(t.Context(), at(i), fmt.Sprint("stranger ", i)) })
		}
		synctest.Wait()
		if a.times.Load() != 1+maxFlights {
			t.Errorf("%d questions are asked at once", a.times.Load()-1)
		}
		a.answer = func(context.Context) (bool, error) { return true, nil }
		a.want(t, true, nil, 2+maxFlights)
		all.Wait()

		everyone := &address{own: rate.NewLimiter(rate.Inf, 0), vouchedUntil: time.Now().Add(vouchLife)}
		a.budget.addresses[netip.IPv6Loopback()] = everyone // here, only memory bounds them
		a.answer = func(context.Context) (bool, error) { return false, nil }
		for i := range 3 * maxEntries {
			_, _ = a.ask(t.Context(), fmt.Sprint(i))
		}
		if len(a.entries) > maxEntries/2+1 || a.noes > maxEntries/2 {
			t.Errorf("%d answers are remembered, %d of them no", len(a.entries), a.noes)
		}
		times := int(a.times.Load())
		a.want(t, true, nil, times)
		a.answer = func(context.Context) (bool, error) { return true, nil }
		for i := range 3 * maxEntries {
			_, _ = a.ask(t.Context(), fmt.Sprint("y", i))
		}
		if len(a.entries) > maxEntries {
			t.Errorf("%d answers are remembered", len(a.entries))
		}
	})
}
