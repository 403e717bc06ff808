package etcd

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patience{first: 500 * time.Millisecond, most: 5 * time.Second}
		want := func(when string, limit time.Duration) {
			t.Helper()
			if got := p.limit(); got != limit {
				t.Errorf("%s: got %s, want %s", when, got, limit)
			}
		}
		late := func() {
			limit := p.limit()
			<-time.After(limit)
			p.learn(limit, true)
		}
		want("at first", p.first)
		for _, limit := range []time.Duration{500, 500, 500, 1000, 1000, 2000, 2000, 4000, 4000, 5000, 5000} {
			late()
			p.learn(p.limit(), true) // another request at the same time
			want("after another late attempt", limit*time.Millisecond)
		}
		p.learn(700*time.Millisecond, false)
		want("after one that was answered late", 5*time.Second)
		p.learn(100*time.Millisecond, false)
		want("after one that was answered quickly", p.first)

		p = patience{first: time.Second, most: time.Second}
		for range 9 {
			late()
		}
		want("if one attempt may take all the time", time.Second)
	})
}
