package model

import (
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Config is one world to be searched: its size, its releases, and which rules
// hold in it.
type Config struct {
	Nodes    int // at most maxNodes
	Releases int
	Builds   int // contents of each release, which differ in their digest
	// M and A are the constraints of each release: M[0] is that of release 1.
	M, A []int

	Faults  int // how many faults may happen
	Changes int // how often a node may be moved to another content
	Objects []shape
	Start   start

	Off  safeguard // the rules that are turned off
	Only []string  // the invariants that are asked; empty: all
	// Policy: the admission policy of DESIGN 6.4 stands. Without it, objects are
	// guarded by UID and resourceVersion alone.
	Policy bool
	// LooseClock: a leader goes on to send requests after its lease has expired,
	// as one that was paused between the check of its clock and the request.
	LooseClock bool
	// Restamp: a proposal. An object whose stamp is below the content epoch of
	// another entry of the mark is written anew, so that no request of that
	// content fits it any more, however late.
	Restamp bool
	// BothLost: the status and the parent of the set may be lost at the same
	// time. Without it, the one is lost only while the other is there.
	BothLost bool
	// Expire: every record says when it may be passed over (4.9).
	Expire bool
	// Coarse: moves that nobody else can tell from one are one: a node starts
	// and registers, a leader is elected and looks, begins a pass and lists, and
	// gates read a status as soon as it is there.
	Coarse bool
}

// shape says how an object differs between contents.
type shape uint8

// The shapes of objects.
const (
	sameForm    shape = iota // the same in every content: it keeps its first stamp
	changedForm              // another one in each content
)

// Start is the state that a search begins with.
type start uint8

// The starts.
const (
	// newCluster: nothing is there and no node runs.
	newCluster start = iota
	// settled: every node serves on release 1, its objects are in place, and
	// one node leads.
	settled
)

// String says how a story begins.
func (s start) String() string {
	if s == newCluster {
		return "from a new cluster"
	}
	return "from a settled one"
}

// A state has room for so many. A move that needs more is not followed, and
// Result.Unfollowed counts it: an exhaustive search that counts one has failed.
const (
	maxNodes   = 7
	maxLeaders = 2  // that believe they lead at the same time
	maxOrphans = 6  // requests whose sender no longer waits for them
	maxEntries = 10 // of a mark
	maxObjects = 3
)

// String names the configuration.
func (c *Config) String() string {
	return fmt.Sprintf("%d nodes, %d releases, M=%s A=%s, %d faults, %s", c.Nodes, c.Releases, join(c.M), join(c.A), c.Faults, c.Start)
}

func join(releases []int) string {
	var parts []string
	for _, r := range releases {
		parts = append(parts, fmt.Sprint(r))
	}
	return strings.Join(parts, ",")
}

// Constraints returns every pair of assignments of M and A to releases that
// never falls and is never above the release: what bundles may say.
func constraints(releases int) (pairs [][2][]int) {
	all := monotone(releases)
	for _, m := range all {
		for _, a := range all {
			pairs = append(pairs, [2][]int{m, a})
		}
	}
	return pairs
}

func monotone(releases int) [][]int {
	if releases == 1 {
		return [][]int{{1}}
	}
	var out [][]int
	for _, shorter := range monotone(releases - 1) {
		for r := shorter[len(shorter)-1]; r <= releases; r++ {
			out = append(out, append(append([]int{}, shorter...), r))
		}
	}
	return out
}

// contents is how many contents nodes can run. They are numbered from 1, by
// release and build. Above them, one number for each release stands for "of
// that release, digest unknown": what a stamp tells. Above those, one for each
// release and minimum stands for all that a status covers.
func (c *Config) contents() int { return c.Releases * c.Builds }

// releaseOf returns the release of a content, also of one known from a stamp.
func (c *Config) releaseOf(content uint8) int {
	n := c.contents()
	switch {
	case int(content) > n+c.Releases:
		return (int(content)-n-c.Releases-1)/c.Releases + 1
	case int(content) > n:
		return int(content) - n
	}
	return (int(content)-1)/c.Builds + 1
}

// release is a release as the protocol has it. Number 0 is the zero Release.
func release(number int) protocol.Release { return protocol.Release{Major: int64(number)} }

func version(number int) protocol.Version { return protocol.Version{Release: release(number)} }

// content is a content as the protocol has it. From a stamp, neither digest nor
// M are known.
func (c *Config) content(e entry) protocol.Content {
	if e.content == 0 {
		return protocol.Content{Epoch: int64(e.epoch)}
	}
	r := c.releaseOf(e.content)
	out := protocol.Content{Release: release(r), Epoch: int64(e.epoch)}
	out.Constraints.MinApiserver = release(c.A[r-1])
	if n := c.contents() + c.Releases; int(e.content) > n {
		out.Constraints.MinApiserver = release((int(e.content)-n-1)%c.Releases + 1)
	}
	if int(e.content) <= c.contents() {
		out.Constraints.MinReconciler = release(c.M[r-1])
		out.Digest = c.digest(e.content)
	}
	return out
}

// digest names a content's digest: release and build.
func (c *Config) digest(content uint8) string {
	return fmt.Sprintf("%d%c", c.releaseOf(content), 'a'+(int(content)-1)%c.Builds)
}

// entry is the inverse of content.
func (c *Config) entry(p protocol.Content) entry {
	r := int(p.Release.Major)
	e := entry{epoch: uint8(p.Epoch)}
	switch {
	case r == 0:
	case p.Digest == "" && (p.Constraints.MinApiserver == release(0) || p.Constraints.MinApiserver == release(c.A[r-1])):
		e.content = uint8(c.contents() + r)
	case p.Digest == "":
		least := int(p.Constraints.MinApiserver.Major)
		e.content = uint8(c.contents() + c.Releases + (r-1)*c.Releases + least)
	default:
		e.content = uint8((r-1)*c.Builds + int(p.Digest[len(p.Digest)-1]-'a') + 1)
	}
	return e
}

// form is what an object looks like in a content; 0: it is not there.
func (c *Config) form(object int, content uint8) uint8 {
	if c.Objects[object] == sameForm {
		return 1
	}
	return content
}
