package etcd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A keep-alive is answered, but this machine was suspended in between: those who rely on the lease end at
// once. The owner, which outlasts that, does not look at the lease again for a while.
func TestSession_extend_late(t *testing.T) {
	t.Parallel()
	s := &Session{client: new(Client), ttl: time.Minute, validity: new(validity), revoked: make(chan struct{})}
	s.extend(time.Now(), time.Minute)
	if err := s.Share(t.Context(), func(held context.Context, part *Session) error {
		s.extend(time.Now(), time.Minute)
		if held.Err() != nil {
			t.Error("ended, and the lease is valid")
		}
		s.extend(time.Now().Add(-time.Hour), time.Minute)
		if part.Valid() || part.Rely() {
			t.Error("it is valid")
		}
		return context.Cause(held)
	}); !errors.Is(err, ErrSessionLost) {
		t.Errorf("got %v", err)
	}
}
