package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxStreams limits the open streams: each has a connection and a goroutine.
const maxStreams = 64

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// stream sends the report as a server-sent event, now and after each change, until
// the client closes the connection or the server stops. A slow client may miss
// reports, but never the newest.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
	default:
		s.problem(w, http.StatusServiceUnavailable, fmt.Sprintf("too many streams: %d are open, which is the limit", maxStreams))
		return
	}
	s.metrics.streaming(+1)
	defer func() {
		s.metrics.streaming(-1)
		<-s.streams
	}()
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // proxies would hold the events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
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
		snap, changed := s.cfg.Snapshot.Load()
		report := NewReport(snap)
		if mark := fingerprint(report); mark != sent {
			if err := out.send("id: " + mark + "\ndata: " + string(marshal(report)) + "\n\n"); err != nil {
				return // the client has closed the connection
			}
			sent = mark
		}
		select {
		case <-changed:
		case <-keepAlive.C:
			if err := out.send(": keep-alive\n\n"); err != nil {
				return // the client has closed the connection
			}
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// sender writes to a stream. Each write has its own deadline, since the stream as a
// whole has none.
type sender struct {
	w      io.Writer
	ctl    *http.ResponseController
	within time.Duration
}

func (s *sender) send(text string) error {
	if err := s.ctl.SetWriteDeadline(time.Now().Add(s.within)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	if err := s.ctl.Flush(); err != nil {
		return fmt.Errorf("flush event: %w", err)
	}
	return nil
}
