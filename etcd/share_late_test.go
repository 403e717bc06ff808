package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// If the lease is given up, Share returns when it was revoked, or is no longer certain to live: hold's keys have
// ended then.
func TestSession_Share_awaitsRevocation(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(*Session){"revoked": func(s *Session) { close(s.revoked) }, "never revoked": func(*Session) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, lose := context.WithCancelCause(t.Context())
				s := &Session{client: new(Client), ttl: time.Minute, lose: lose, validity: new(validity), revoked: make(chan struct{})}
				s.extend(time.Now(), time.Minute)
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					_ = s.Share(t.Context(), func(_ context.Context, part *Session) error { // it returns hold's error
						part.End(errors.New("enough"))
						return nil
					})
				}()
				synctest.Wait()
				select {
				case <-returned:
					t.Error("returned, and the lease lives")
				default:
				}
				ends(s)
				<-returned
				if early := time.Until(s.ValidUntil()); name == "never revoked" && early > 0 {
					t.Errorf("returned %s too early", early)
				}
			})
		})
	}
}
