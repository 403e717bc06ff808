package httpapi

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// The checks of /readyz.
const (
	checkShutdown   = "shutdown"
	checkEtcd       = "etcd"
	checkRegistered = "registered"
	checkCompatible = "compatible"
	checkAPIServer  = "apiserver"
	checkMember     = "etcd-member"
)

// check is one line of /readyz.
type check struct {
	Name    string
	OK      bool
	Message string // why it is not OK: one line of limited length; empty if it is
	Note    string // a remark for people although it is OK; empty: none
	// Reason is the text for other machines, instead of Message and Note; empty: they get nothing.
	Reason protocol.Reason
}

// required reports whether requests cannot exclude the check. If they could, a node
// that must not serve could be made to look ready.
func (c check) required() bool {
	return c.Name == checkShutdown || c.Name == checkRegistered || c.Name == checkCompatible
}

// checks derives the checks of /readyz from a snapshot, in the order in which they
// are shown. All of them pass only if the verdict is ready (and the kube-apiserver
// too, if that check is enabled).
//
// A verdict that is not ready fails `shutdown` if the reason is ShuttingDown, and
// `compatible` otherwise. Neither can be excluded, so no request can make a node
// look ready that must not serve. `etcd` and `registered` only add details: an etcd
// that becomes unreachable later fails neither (docs/protocol-nodes.md#gate).
func checks(s Snapshot) []check {
	v := verdict(s)
	failed := failing(s, v)
	var out []check
	for _, name := range []string{checkShutdown, checkEtcd, checkRegistered, checkCompatible} {
		c := check{Name: name, OK: !slices.Contains(failed, name)}
		if !c.OK {
			c.Message, c.Reason = oneLine(string(v.Reason)+": "+v.Message), v.Reason
		}
		if name == checkCompatible && c.OK && v.Reason == protocol.Overridden {
			c.Note, c.Reason = oneLine(v.Message), v.Reason
		}
		if name == checkEtcd && c.OK && !s.Etcd.Connected {
			c.Note, c.Reason = oneLine(unansweredNote(s)), warn.EtcdUnreachable
		}
		out = append(out, c)
	}
	if s.APIServer.Enabled {
		out = append(out, apiserverCheck(s.APIServer))
	}
	if s.Cluster.Embedded {
		out = append(out, memberCheck(s.Cluster))
	}
	return out
}

// withheld returns the checks for a client that may not read the messages.
func withheld(all []check) []check {
	out := slices.Clone(all)
	for i, c := range out {
		if c.OK {
			out[i].Note = string(c.Reason)
		} else {
			out[i].Message = cmp.Or(string(c.Reason), "reason withheld")
		}
	}
	return out
}

// unansweredNote reports since when etcd does not answer. That fails no check (docs/protocol-nodes.md#gate).
func unansweredNote(s Snapshot) string {
	note := "the verdict is the last known one: etcd has not answered since " + s.Etcd.LastContact.UTC().Format(time.RFC3339)
	if s.Etcd.Problem != "" {
		note += ": " + s.Etcd.Problem
	}
	return note
}

// failing names the checks that a verdict fails.
func failing(s Snapshot, v protocol.Verdict) []string {
	if v.Ready {
		return nil
	}
	out := []string{checkCompatible}
	if v.Reason == protocol.ShuttingDown {
		out = []string{checkShutdown}
	}
	if !s.Etcd.Reached || v.Reason == protocol.Starting {
		return append(out, checkEtcd, checkRegistered)
	}
	if unregistered(s, v) {
		out = append(out, checkRegistered)
	}
	return out
}

func unregistered(s Snapshot, v protocol.Verdict) bool {
	switch v.Reason {
	case protocol.NotRegistered, protocol.OtherAPIServer, protocol.NotController, protocol.DuplicateNodeID, protocol.Fenced:
		return true
	default:
		return !s.Registration.Matches || !s.Registration.Controller
	}
}

func apiserverCheck(a APIServer) check {
	if a.Ready {
		return check{Name: checkAPIServer, OK: true}
	}
	reason, problem := a.Problem()
	return check{Name: checkAPIServer, Reason: reason, Message: oneLine("this node's " + strings.TrimPrefix(problem, "its "))}
}

// maxMessage limits a message in bytes: a kubelet reads no more than 10 KiB of a
// response (docs/upstream.md#probes), and there are six checks.
const maxMessage = 1024

// oneLine makes s fit for one line of a health response.
func oneLine(s string) string { return clip(s, maxMessage) }

// clip turns control characters into spaces and cuts s to at most limit bytes,
// which it marks with an ellipsis.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "�")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}
