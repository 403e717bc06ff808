package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockstep-dev/lockstep/httpapi/reviews"
)

// newReviewed returns a server whose clients are reviewed by post, and its log.
func newReviewed(t *testing.T, post reviews.Post) (fixture, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	return newFixture(t, states(t)[1].snap, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		c.Reviews = reviews.New(reviews.Config{Authentication: post, Authorization: post})
	}), log
}

// shows sends a request with a token, from an address, and returns the answer.
func (f fixture) shows(t *testing.T, token, from string) *httptest.ResponseRecorder {
	t.Helper()
	return f.showsFor(t, "/status", token, from)
}

func (f fixture) showsFor(t *testing.T, path, token, from string) *httptest.ResponseRecorder {
	t.Helper()
	own := net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8086})
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, own), http.MethodGet, path, nil)
	r.Host, r.RemoteAddr = "10.0.0.1:8086", from
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	return w
}

// reviewOf returns the answer of a kube-apiserver to a review: the token good is valid, and its owner may do everything.
func reviewOf(body []byte) ([]byte, error) {
	var review struct {
		Spec struct{ Token, User string }
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, err
	}
	if review.Spec.User != "" {
		return []byte(`{"status":{"allowed":true}}`), nil
	}
	return fmt.Appendf(nil, `{"status":{"authenticated":%t,"user":{"username":"scraper"}}}`, review.Spec.Token == "good"), nil
}

// What the kube-apiserver says about a failed review is for people who read the log, once a minute, not for the client.
func TestReviewed_silent(t *testing.T) {
	const secret = `dial tcp 10.0.0.9:6443: user "lockstep:cp-1" cannot create tokenreviews`
	for _, silent := range []string{"tokenreviews", "subjectaccessreviews"} {
		f, log := newReviewed(t, func(_ context.Context, path string, body []byte) ([]byte, error) {
			if strings.HasSuffix(path, silent) {
				return nil, errors.New(secret)
			}
			return reviewOf(body)
		})
		for _, from := range []string{"10.0.0.2:1", "127.0.0.1:1"} {
			w := f.shows(t, "good", from)
			if text := w.Body.String(); w.Code != http.StatusServiceUnavailable || strings.Contains(text, "10.0.0.9") || !strings.Contains(text, "log") {
				t.Errorf("%s, from %s: got %d %.300s", silent, from, w.Code, text)
			}
		}
		if n := strings.Count(log.String(), "10.0.0.9"); n != 1 {
			t.Errorf("%d lines about it, want one:\n%s", n, log)
		}
	}
}

// Clients whose tokens nothing is known of use up what they may ask. This machine counts as one address, and a client
// that may read goes on.
func TestReviewed_inventedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no share grows
		questions := 0
		f, log := newReviewed(t, func(_ context.Context, _ string, body []byte) ([]byte, error) {
			questions++
			return reviewOf(body)
		})
		if w := f.shows(t, "good", "10.0.0.3:1"); w.Code != http.StatusOK {
			t.Fatalf("got %d %.300s", w.Code, w.Body)
		}
		const most, all = 10, 200
		for name, address := range map[string]string{"another machine": "10.0.0.2:%d", "this machine": "127.0.0.%d:1"} {
			questions = 0
			answers := map[int]int{}
			for i := range all {
				answers[f.shows(t, fmt.Sprint("invented", name, i), fmt.Sprintf(address, 1+i)).Code]++
			}
			if questions != most || answers[http.StatusUnauthorized] != most || answers[http.StatusTooManyRequests] != all-most {
				t.Errorf("%s: got %v after %d questions", name, answers, questions)
			}
		}
		if w := f.shows(t, "good", "10.0.0.2:1"); w.Code != http.StatusOK {
			t.Errorf("a client that may read: got %d %.300s", w.Code, w.Body)
		}
		if n := strings.Count(log.String(), "ask too often"); n != 1 {
			t.Errorf("%d lines about it, want one:\n%s", n, log)
		}
	})
}

// Each pod has a valid token. One without a right asks for a path that is new each time.
func TestReviewed_withoutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		questions := 0
		f, _ := newReviewed(t, func(_ context.Context, path string, body []byte) ([]byte, error) {
			if strings.HasSuffix(path, "subjectaccessreviews") {
				questions++
				return []byte(`{"status":{"allowed":false}}`), nil
			}
			return reviewOf(body)
		})
		const most, all = 10, 200
		answers := map[int]int{}
		for i := range all {
			answers[f.showsFor(t, fmt.Sprint("/debug/pprof/", i), "good", "10.0.0.2:1").Code]++
		}
		if questions != most || answers[http.StatusForbidden] != most || answers[http.StatusTooManyRequests] != all-most {
			t.Errorf("got %v after %d questions", answers, questions)
		}
	})
}
