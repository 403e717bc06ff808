package reviews

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// at returns one of many addresses.
func at(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

const often = 5 * time.Millisecond // more often than any budget allows

// attack asks about an invented token each time that a pause has passed, for a while.
func (a *asked) attack(t *testing.T, lasts, each time.Duration, addresses int) {
	t.Helper()
	for i := range int(lasts / each) {
		if _, err := a.askFrom(t.Context(), at(i%addresses), fmt.Sprint("invented ", i, time.Now())); err != nil && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		<-time.After(each)
	}
}

// However many tokens strangers invent, and from however many addresses, the kube-apiserver is asked ten times a
// second, and twice for one address. The rest is refused.
func TestCache_inventedTokens(t *testing.T) {
	const lasts = 100 * time.Second
	for addresses, most := range map[int]int{
		1: ownBurst + 100*ownRate, 4: 4 * (ownBurst + 100*ownRate), 5: commonBurst + 100*commonRate, 5000: commonBurst + 100*commonRate,
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newAsked(func(context.Context) (bool, error) { return false, nil })
			a.attack(t, lasts, often, addresses)
			got := int(a.times.Load())
			if got > most || got < most*9/10 {
				t.Errorf("%d addresses: %d questions in %s, want %d", addresses, got, lasts, most)
			}
			if a.counts[resultNo] != got || a.counts[resultRefused] == 0 || a.counts[resultFailed] != 0 {
				t.Errorf("%d addresses: got %v", addresses, a.counts)
			}
			if n := len(a.budget.addresses); n > maxAddresses {
				t.Errorf("%d addresses are remembered", n)
			}
		})
	}
}

// Strangers who use up the budget keep neither a known token out, nor a new one from an address where a client may
// read, even while their questions hang.
func TestCache_vouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := func(context.Context) (bool, error) { return true, nil }
		a := newAsked(yes)
		own, other := at(1), at(60000)
		ask := func(from netip.Addr, token string) error {
			answer, err := a.askFrom(t.Context(), from, token)
			if err == nil && !answer {
				t.Errorf("%s is rejected", token)
			}
			return err
		}
		if err := ask(own, "first"); err != nil {
			t.Fatal(err)
		}
		a.budget.vouch(own)
		for i := range 3 * maxFlights { // they hang
			go func() {
				_, _ = a.get(t.Context(), at(1000+i), [32]byte{byte(i)}, func(ctx context.Context) (bool, error) {
					<-ctx.Done()
					return false, ctx.Err()
				})
			}()
		}
		synctest.Wait()
		a.answer = func(context.Context) (bool, error) { return false, nil }
		for i := range 2 * commonBurst {
			_, _ = a.askFrom(t.Context(), at(2000+i), fmt.Sprint(i))
		}
		a.answer = yes
		if err := ask(other, "elsewhere"); !errors.Is(err, ErrBusy) {
			t.Errorf("another address: got %v, want %v", err, ErrBusy)
		}
		for i := range ownBurst - 1 {
			if err := ask(own, fmt.Sprint("second", i)); err != nil {
				t.Errorf("a new token: %v", err)
			}
		}
		<-time.After(10 * time.Second) // the answer must be asked for again
		a.attack(t, 10*time.Second, often, 3000)
		for range 3 * ownBurst { // its own share is used up too
			_, _ = a.askFrom(t.Context(), own, fmt.Sprint("invented", time.Now()))
		}
		if err := ask(own, "first"); err != nil {
			t.Errorf("a known token: %v", err)
		}
		a.attack(t, vouchLife, time.Second, 3000)
		if vouched, _ := a.budget.admit(own); vouched {
			t.Error("the address is still vouched")
		}
	})
}

// At most some addresses have a share that others cannot use up.
func TestBudget_maxVouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		count := func() (out int) {
			for i := range 2 * maxVouched {
				if vouched, _ := b.admit(at(i)); vouched {
					out++
				}
			}
			return out
		}
		for range 2 {
			for i := range 2 * maxVouched {
				b.vouch(at(i))
			}
			if got := count(); got != maxVouched || b.vouched != maxVouched {
				t.Errorf("got %d of %d", got, b.vouched)
			}
			<-time.After(vouchLife)
			if got := count(); got != 0 {
				t.Errorf("got %d after their life", got)
			}
			<-time.After(addressIdle)
		}
	})
}
