package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// maxStreams limits the open streams: each takes a connection and a goroutine.
const maxStreams = 64

// One address gets a share of them, and some are kept for clients on this machine, such as `sidecar status
// --watch`.
const (
	maxStreamsPerAddress = 16
	localStreams         = 16
)

// streams counts the open streams.
type streams struct {
	mu        sync.Mutex // mu guards the fields below
	open      int
	remote    int
	byAddress map[netip.Addr]int // of other machines, without zeros
}

// enter counts a stream, or returns why it may not be opened. If it was counted, leave must follow.
func (s *streams) enter(client netip.Addr, local bool) (problem string) { //nolint:revive // a fact about the client
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open >= maxStreams:
		return fmt.Sprintf("too many streams: %d are open, which is the limit", maxStreams)
	case local:
	case s.remote >= maxStreams-localStreams:
		return fmt.Sprintf("too many streams: %d of other machines are open, which is the limit", s.remote)
	case s.byAddress[client] >= maxStreamsPerAddress:
		return fmt.Sprintf("too many streams: %d of %s are open, which is the limit for one address", maxStreamsPerAddress, client)
	}
	s.open++
	if !local {
		if s.byAddress == nil {
			s.byAddress = map[netip.Addr]int{}
		}
		s.remote++
		s.byAddress[client]++
	}
	return ""
}

func (s *streams) leave(client netip.Addr, local bool) { //nolint:revive // as enter has it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if local {
		return
	}
	s.remote--
	if s.byAddress[client]--; s.byAddress[client] == 0 {
		delete(s.byAddress, client)
	}
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// rendering is the event of the newest snapshot, rendered once for all streams.
type rendering struct {
	mu     sync.Mutex // mu guards newest; held while one stream renders, for which the others wait
	newest streamed
}

// streamed is the event of a snapshot.
type streamed struct {
	mark    string
	text    string
	changed <-chan struct{} // closed when there is a newer snapshot; nil: nothing is rendered yet
}

// of returns the event of the newest snapshot.
func (r *rendering) of(snapshot *event.Value[Snapshot]) streamed {
	r.mu.Lock()
	defer r.mu.Unlock()
	snap, changed := snapshot.Load()
	if r.newest.changed != changed {
		now := NewStatus(snap)
		mark := fingerprint(now)
		r.newest = streamed{mark, "id: " + mark + "\ndata: " + string(marshal(now)) + "\n\n", changed}
	}
	return r.newest
}

// stream sends the report as a server-sent event, now and after each change, until
// the client closes the connection or the server stops. A slow client may miss
// reports, but never the newest.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	client, local := allowance.AddressOf(r.RemoteAddr), isLocal(r)
	if problem := s.streams.enter(client, local); problem != "" {
		s.metrics.tooMany.Inc()
		s.problem(w, http.StatusServiceUnavailable, problem)
		return
	}
	s.metrics.streams.Inc()
	defer func() {
		s.metrics.streams.Dec()
		s.streams.leave(client, local)
	}()
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // proxies would hold the events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	// A client elsewhere is not the command, and could pretend that it still runs.
	if s.cfg.CommandFollows != nil && asked(r.URL.Query(), "turn") && local {
		defer s.cfg.CommandFollows()()
	}
	s.follow(&sender{w: w, ctl: http.NewResponseController(w), within: s.timeouts.streamWrite}, r)
}

func (s *Server) follow(out *sender, r *http.Request) {
	keepAlive := time.NewTicker(s.timeouts.keepAlive)
	defer keepAlive.Stop()
	sent := ""
	for {
		if code, _ := s.problemOf(r); code != 0 {
			return // its certificate expired, or the CA was removed
		}
		newest := s.rendered.of(s.cfg.Snapshot)
		if newest.mark != sent {
			if err := out.send(newest.text); err != nil {
				return // the client closed the connection
			}
			sent = newest.mark
		}
		select {
		case <-newest.changed:
		case <-keepAlive.C:
			if err := out.send(": keep-alive\n\n"); err != nil {
				return // the client closed the connection
			}
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// sender writes to a stream. Each write gets its own deadline, since the stream as a whole runs without one.
type sender struct {
	w      io.Writer
	ctl    *http.ResponseController
	within time.Duration
}

func (s *sender) send(text string) error {
	if err := s.ctl.SetWriteDeadline(time.Now().Add(s.within)); err != nil {
		return err
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.ctl.Flush()
}
