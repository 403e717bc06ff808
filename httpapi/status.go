package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// status renders the newest snapshot, or streams it (?watch).
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	if asked(r.URL.Query(), "watch") {
		s.stream(w, r)
		return
	}
	now := NewStatus(s.cfg.Snapshot.Get())
	tag := `W/"` + fingerprint(now) + `"`
	w.Header().Set("ETag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.replyJSON(w, http.StatusOK, now)
}

// fingerprint identifies the report's content for the ETag and the stream. It ignores etcd's revision and the time
// of its last answer: both change all the time and mean nothing by themselves. So the ETag is a weak one.
func fingerprint(r report.Status) string {
	r.Etcd.LastContact, r.Etcd.Revision = report.Timestamp{}, 0
	sum := sha256.Sum256(marshal(r))
	return hex.EncodeToString(sum[:12])
}

// matches reports whether an If-None-Match header names tag, by the weak
// comparison of RFC 9110.
func matches(header, tag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// leader responds 200 on the node that leads, and 503 on others.
func (s *Server) leader(w http.ResponseWriter, _ *http.Request) {
	snap := s.cfg.Snapshot.Get()
	out := report.Leader{
		Leading: snap.Election.State == protocol.Leading,
		Node:    string(snap.Local.ID),
		Leader:  string(snap.Election.Leader),
		Epoch:   snap.Election.Epoch,
	}
	code := http.StatusServiceUnavailable
	if out.Leading {
		code = http.StatusOK
	}
	s.replyJSON(w, code, out)
}

// marshal panics on a value that cannot be JSON: a mistake in a wire form.
func marshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

// indented is JSON for people with curl.
func indented(v any) string {
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(out) + "\n"
}
