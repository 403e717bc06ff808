package etcd

import (
	"cmp"
	"sync"
	"time"
)

// patience is how long an attempt may take. A request that was under way when the leader
// of etcd died is never answered, so attempts are short. But a store on a slow disk must
// not be given up for ever: when none was answered for as long as lateAttempts take, each
// may take twice as long, and so on, until one is answered quickly again.
type patience struct {
	first, most time.Duration

	mu   sync.Mutex
	late time.Time // when the first of the attempts began that were given up; zero: none was
}

func newPatience(cfg Config) *patience {
	return &patience{first: min(cmp.Or(cfg.AttemptTimeout, cfg.RequestTimeout), cfg.RequestTimeout), most: cfg.RequestTimeout}
}

// lateAttempts is for how many attempts no answer must come until they may take longer.
const lateAttempts = 4

// limit returns how long an attempt may take that begins now.
func (p *patience) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.first
	if p.late.IsZero() {
		return limit
	}
	for since := time.Since(p.late); since >= lateAttempts*limit && limit < p.most; {
		limit *= 2
	}
	return min(limit, p.most)
}

// learn notes how long an attempt took, and whether it was given up for that.
func (p *patience) learn(took time.Duration, givenUp bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case givenUp && p.late.IsZero():
		p.late = time.Now().Add(-took)
	case !givenUp && took < p.first:
		p.late = time.Time{}
	}
}
