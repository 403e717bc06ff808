package reviews

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Questions about clients for whom no remembered yes speaks. A stranger invents a token for each request, and each
// costs the kube-apiserver a review, far more than the request costs here.
const (
	// commonRate is for all addresses together: questions in a second, and as many at once as commonBurst.
	commonRate, commonBurst = 10, 40
	// ownRate is for each address.
	ownRate, ownBurst = 2, 10
	// A client at a vouched address was allowed to read something within vouchLife. Such an address does not share
	// commonRate with others, so that a client there reads on with a new token.
	vouchLife  = time.Hour
	maxVouched = 32
	// maxAddresses bounds the memory that addresses take. If more are active, the others have commonRate only.
	maxAddresses = 1024
	// addressIdle is how long an address is remembered: by then it may ask ownBurst questions again.
	addressIdle = ownBurst * time.Second / ownRate
)

// budget bounds how often such questions are asked.
type budget struct {
	mu        sync.Mutex // mu guards the fields below
	common    *rate.Limiter
	addresses map[netip.Addr]*address
	vouched   int       // how many of them are
	swept     time.Time // when addresses were last forgotten
}

// address is where clients come from.
type address struct {
	own  *rate.Limiter
	last time.Time
	// vouchedUntil ends the life of the last yes; zero: none.
	vouchedUntil time.Time
}

func newBudget() *budget {
	return &budget{common: rate.NewLimiter(commonRate, commonBurst), addresses: map[netip.Addr]*address{}}
}

// admit reports whether a question about a client may be asked now, and whether its address is vouched.
func (b *budget) admit(from netip.Addr) (vouched, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	a := b.address(from, now)
	switch {
	case a == nil:
		return false, b.common.AllowN(now, 1)
	case !a.own.AllowN(now, 1):
		return now.Before(a.vouchedUntil), false
	case now.Before(a.vouchedUntil):
		return true, true
	}
	return false, b.common.AllowN(now, 1)
}

// vouch notes that a client at an address may read something.
func (b *budget) vouch(from netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	a := b.address(from, now)
	if a == nil {
		return
	}
	if a.vouchedUntil.IsZero() {
		if b.vouched >= maxVouched {
			b.sweep(now)
		}
		if b.vouched >= maxVouched {
			return
		}
		b.vouched++
	}
	a.vouchedUntil = now.Add(vouchLife)
}

// address needs mu. It returns nil if there are too many.
func (b *budget) address(from netip.Addr, now time.Time) *address {
	a := b.addresses[from]
	if a == nil {
		if len(b.addresses) >= maxAddresses {
			b.sweep(now)
		}
		if len(b.addresses) >= maxAddresses {
			return nil
		}
		a = &address{own: rate.NewLimiter(ownRate, ownBurst)}
		b.addresses[from] = a
	}
	a.last = now
	return a
}

// sweep needs mu. It forgets idle addresses, once a second at most: strangers come from thousands.
func (b *budget) sweep(now time.Time) {
	if now.Sub(b.swept) < time.Second {
		return
	}
	b.swept = now
	for from, a := range b.addresses {
		if !a.vouchedUntil.IsZero() && !now.Before(a.vouchedUntil) {
			a.vouchedUntil = time.Time{}
			b.vouched--
		}
		if a.vouchedUntil.IsZero() && now.Sub(a.last) >= addressIdle {
			delete(b.addresses, from)
		}
	}
}
