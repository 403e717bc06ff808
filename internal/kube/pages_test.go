package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// heavy is a server with 1,000 objects, of which only so many arrive in one answer
// before its time is over.
type heavy struct {
	arrives int

	mu      sync.Mutex // mu guards queries
	queries []string   // limit and resourceVersion of each
}

func (h *heavy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	h.mu.Lock()
	h.queries = append(h.queries, q.Get("limit")+q.Get("resourceVersion"))
	h.mu.Unlock()
	first, _ := strconv.Atoi(q.Get("continue"))
	last := 1000
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && !q.Has("resourceVersion") {
		last = min(last, first+limit)
	}
	next := ""
	if last < 1000 {
		next = strconv.Itoa(last)
	}
	fmt.Fprintf(w, `{"kind":"ThingList","apiVersion":"x.test/v1","metadata":{"resourceVersion":"9","continue":%q},"items":[`, next)
	for i := first; i < last; i++ {
		if i-first == h.arrives {
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
			return
		}
		if i > first {
			_, _ = io.WriteString(w, ",")
		}
		fmt.Fprintf(w, `{"metadata":{"name":"a-%d"}}`, i)
	}
	_, _ = io.WriteString(w, "]}")
}

// asked returns the queries since the last call.
func (h *heavy) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.queries
	h.queries = nil
	return out
}

// peek returns the queries since the last call of asked.
func (h *heavy) peek() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.queries)
}

// A page that does not arrive in time is asked for again with fewer objects, until it
// does.
func TestList_pagesAdapt(t *testing.T) {
	h := &heavy{arrives: 250}
	c := newClient(t, h.ServeHTTP)
	// The time of a request is over when all has arrived that the server sends.
	list := func(d Depth) error {
		ctx, end := context.WithCancelCause(t.Context())
		defer end(nil)
		n := 0
		out, err := c.List(ctx, things, "a=b", d, func(Head) bool {
			if n++; n == h.arrives && len(h.peek()) == 1 && h.peek()[0] != "125" {
				end(context.DeadlineExceeded)
			}
			return true
		})
		if err == nil && len(out.Objects) != 1000 {
			t.Errorf("got %d objects", len(out.Objects))
		}
		return err
	}
	step := func(what string, failed bool, err error, want ...string) {
		t.Helper()
		if got := h.asked(); (err != nil) != failed || !slices.Equal(got, want) {
			t.Errorf("%s: got queries %q, error %v, want %q", what, got, err, want)
		}
	}
	step("the first", true, list(Full), "500")
	step("half of what arrived", false, list(Full), slices.Repeat([]string{"125"}, 8)...)
	step("the cache has no pages", true, list(Recent), "0")
	step("so it is not asked again", false, list(Recent), slices.Repeat([]string{"125"}, 8)...)
	c.pages.resize(things.Path("", "")+" "+metadataOnly, maxPage)
	h.arrives = 1001
	step("until the list was quick", false, list(Recent), "0")
}

func TestPages(t *testing.T) {
	late := fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	for name, tt := range map[string]struct {
		size, objects int
		err           error
		want          int
	}{
		"half of what arrived":              {500, 200, late, 100},
		"more than was asked for arrived":   {500, 2000, late, 250},
		"one object takes the whole time":   {3, 1, late, 1},
		"nothing arrived":                   {500, 0, late, 250},
		"nothing arrived, of a small page":  {30, 0, late, minPageUnseen},
		"nothing arrived, of a smaller one": {10, 0, late, 10},
		"the server gave it up":             {500, 0, apierrors.NewTimeoutError("", 0), 250},
		"another error":                     {500, 100, errors.New("reset"), 500},
		"the caller gave it up":             {500, 100, context.Canceled, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var p pages
			p.resize("x", tt.size)
			if p.failed("x", tt.size, tt.objects, tt.err); p.size("x") != tt.want || p.size("y") != maxPage {
				t.Errorf("got %d objects, want %d", p.size("x"), tt.want)
			}
		})
	}
	t.Run("a slow page", func(t *testing.T) {
		var p pages
		if p.arrived("x", maxPage, slowPage+1); p.size("x") != maxPage/2 {
			t.Errorf("got %d objects", p.size("x"))
		}
		if p.ended("x", quickList); p.size("x") != maxPage/2 {
			t.Errorf("after a list that was not quick: got %d objects", p.size("x"))
		}
		p.resize("x", maxPage/4)
		for _, want := range []int{maxPage / 2, maxPage, maxPage} {
			if p.ended("x", quickList-1); p.size("x") != want {
				t.Errorf("after a quick list: got %d objects, want %d", p.size("x"), want)
			}
		}
	})
}

// What a connection reads ahead of an answer is bounded: the answer of a list can be
// as large as other users like.
func TestTransport_readsLittleAhead(t *testing.T) {
	const chunk, large = 16 << 10, 4 << 20
	var sent atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ProtoMajor != 2 {
			t.Errorf("got %s", req.Proto)
		}
		if req.URL.Path != "/large" {
			return
		}
		for range large / chunk {
			if _, err := w.Write(make([]byte, chunk)); err != nil {
				return
			}
			sent.Add(chunk)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{"h2"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	err = c.stream(t.Context(), Request{Verb: http.MethodGet, Path: "/large", Query: url.Values{}}, func(in io.Reader) error {
		if _, err := io.ReadFull(in, make([]byte, 1)); err != nil {
			return err
		}
		// Meanwhile the server would send more than that if it could.
		for range 4 * large / chunk {
			if _, err := c.Do(t.Context(), Request{Verb: http.MethodGet, Path: "/small"}); err != nil {
				return err
			}
		}
		if n := sent.Load(); n > receiveBuffer+8*chunk {
			t.Errorf("got %d bytes sent before one was read, want little more than %d", n, receiveBuffer)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sent.Load() != large {
		t.Errorf("got %d bytes in all", sent.Load())
	}
}
