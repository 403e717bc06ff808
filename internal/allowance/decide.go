package allowance

import "time"

// Times of the rules.
const (
	// burst is for how long a share is saved up while it is not used.
	ownBurst    = 4 * time.Second
	commonBurst = 2 * time.Second
	// A step of an open connection waits for the common share at most maxWait. A new
	// connection waits less, since it costs little to close it.
	maxWait        = 2 * time.Second
	maxConnectWait = 200 * time.Millisecond
	// identifiedFactor is by how much the share of an address is larger at most after a client of
	// it showed a valid identity.
	identifiedFactor = 10

	// An address with so many refusals in refusalWindow keeps no place: it uses more than one gives.
	abusiveRefusals = 3
	// An address is held off after so many refusals in refusalWindow; the first time for
	// firstHold, and twice as long each time that it goes on, up to maxHold.
	maxRefusals   = 8
	refusalWindow = 10 * time.Second
	firstHold     = 5 * time.Second
	maxHold       = 80 * time.Second

	// maxSampledRefusals is how many refusals of a tick are cheap enough. When more addresses attack
	// than can be held off one by one, a part of all packets that open a connection is dropped.
	maxSampledRefusals = 50
	minSample          = 1.0 / 4096
)

// balance is processor time that may be used; below zero, it was promised in advance.
type balance struct {
	left time.Duration
	at   time.Time // when it was last filled up; zero: never, so it is full
}

// filled returns the balance with the time that a share gave until now. It saves up for burst
// at most.
func (b balance) filled(now time.Time, share float64, burst time.Duration) balance {
	most := time.Duration(share * float64(burst))
	if b.at.IsZero() {
		return balance{most, now}
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.left, b.at = min(most, b.left+time.Duration(share*float64(passed))), now
	}
	return b
}

// spend pays a step from own or common, and returns how long the step must wait; ok: not longer
// than atMost. The share of the address comes first: others cannot use it up.
func spend(own, common *balance, share float64, price, atMost time.Duration) (wait time.Duration, ok bool) {
	if own != nil && own.left >= price {
		own.left -= price
		return 0, true
	}
	if short := price - common.left; short > 0 {
		wait = time.Duration(float64(short) / share)
	}
	if wait > atMost {
		return wait, false
	}
	common.left -= price
	return wait, true
}

// hold counts the refusals of an address.
type hold struct {
	refused int
	since   time.Time     // of refused
	until   time.Time     // it is held off; zero: never
	length  time.Duration // of the last time
}

// afterRefusal returns the state of an address after one more of its connections was refused.
func (h hold) afterRefusal(now time.Time) hold {
	if now.Sub(h.since) > refusalWindow {
		h.refused, h.since = 0, now
	}
	if h.refused++; h.refused < maxRefusals || h.active(now) {
		return h
	}
	h.refused = 0
	if h.length *= 2; now.Sub(h.until) > h.length || h.length == 0 {
		h.length = firstHold
	}
	h.length = min(h.length, maxHold)
	h.until = now.Add(h.length)
	return h
}

func (h hold) active(now time.Time) bool { return now.Before(h.until) }

// abusive reports whether an address was refused too often lately to have a place.
func (h hold) abusive(now time.Time) bool {
	return now.Sub(h.until) <= refusalWindow || h.refused >= abusiveRefusals && now.Sub(h.since) <= refusalWindow
}

// nextSample returns which part of the packets that open a connection is let through, after
// a tick with so many refusals.
func nextSample(sample float64, refused int) float64 {
	switch {
	case refused > maxSampledRefusals:
		return max(minSample, sample*maxSampledRefusals/float64(refused))
	case refused <= maxSampledRefusals/2: // so that it does not go up and down
		return min(1, 2*sample)
	}
	return sample
}
