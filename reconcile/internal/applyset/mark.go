package applyset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/protocol"
)

// MarkData is the decoded mark (docs/protocol-objects.md#mark): which contents may be
// present, and which leader last began to write.
type MarkData struct {
	FirstDone   bool
	LeaderEpoch int64
	Entries     []protocol.Content
}

// markKey is the key of the mark in the parent's data.
const markKey = "mark.json"

// markJSON is the mark's form in the API. Unknown fields are ignored, and kept: a newer sidecar
// may write them, and an older one must still be able to lead.
type markJSON struct {
	FirstDone   bool                  `json:"firstDone"`
	LeaderEpoch int64                 `json:"leaderEpoch"`
	Entries     []extended[entryJSON] `json:"entries"`
}

type entryJSON struct {
	Release              string `json:"release"`
	MinReconcilerRelease string `json:"minReconcilerRelease"`
	MinAPIServerRelease  string `json:"minApiserverRelease"`
	Digest               string `json:"digest"`
	ContentEpoch         int64  `json:"contentEpoch"`
}

// encodeMark is the inverse of decodeMark, for a mark that replaces another one; empty: there was none.
// It sorts the entries by epoch. It returns an error where decodeMark would: a leader must never write a
// mark that no leader can read. It keeps the fields that a newer program added to that mark, and to
// entries that stay, unless they are larger than maxUnknown. A damaged mark has none.
func encodeMark(previous string, m MarkData) (string, error) {
	if err := m.validate(); err != nil {
		return "", fmt.Errorf("encode the mark: %w", err)
	}
	out := m.form()
	known, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encode the mark: %w", err)
	}
	full, err := json.Marshal(out.over(previous))
	if err != nil {
		return "", fmt.Errorf("encode the mark: %w", err)
	}
	if len(full)-len(known) > maxUnknown {
		return string(known), nil
	}
	return string(full), nil
}

// form returns the form of m in the API.
func (m MarkData) form() markJSON {
	out := markJSON{FirstDone: m.FirstDone, LeaderEpoch: m.LeaderEpoch, Entries: []extended[entryJSON]{}}
	for _, c := range sortedEntries(m.Entries) {
		out.Entries = append(out.Entries, extended[entryJSON]{known: entryJSON{
			Release:              c.Release.String(),
			MinReconcilerRelease: c.Constraints.MinReconciler.String(),
			MinAPIServerRelease:  c.Constraints.MinAPIServer.String(),
			Digest:               c.Digest,
			ContentEpoch:         c.Epoch,
		}})
	}
	return out
}

// decodeMark decodes all of a mark or nothing: half of a mark would omit content
// that may be present.
func decodeMark(data string) (MarkData, error) {
	var in extended[markJSON]
	if err := json.Unmarshal([]byte(data), &in); err != nil {
		return MarkData{}, fmt.Errorf("decode the mark: %w", err)
	}
	out := MarkData{FirstDone: in.known.FirstDone, LeaderEpoch: in.known.LeaderEpoch}
	for _, e := range in.known.Entries {
		c, err := e.known.content()
		if err != nil {
			return MarkData{}, fmt.Errorf("decode the mark: %w", err)
		}
		out.Entries = append(out.Entries, c)
	}
	if err := out.validate(); err != nil {
		return MarkData{}, fmt.Errorf("decode the mark: %w", err)
	}
	return out, nil
}

// named returns m with the name of its newest content, unless an entry has one. The name is
// another key beside the mark: a program that does not know it keeps it.
func (m MarkData) named(bundle string) MarkData {
	if bundle == "" || len(m.Entries) == 0 || m.Mark(0).Bundle() != "" {
		return m
	}
	newest := 0
	for i, e := range m.Entries {
		if have := m.Entries[newest]; e.Epoch > have.Epoch || e.Epoch == have.Epoch && have.Digest == "" {
			newest = i
		}
	}
	m.Entries = slices.Clone(m.Entries)
	m.Entries[newest].Bundle = bundle
	return m
}

// validate returns why m is no mark.
func (m MarkData) validate() error {
	if m.FirstDone && len(m.Entries) == 0 {
		return errors.New("firstDone is set, and no content is named")
	}
	for _, c := range m.Entries {
		if !protocol.IsContentEpoch(c.Epoch) {
			return fmt.Errorf("content epoch %d is not between 1 and %d", c.Epoch, int64(protocol.MaxContentEpoch))
		}
		for _, r := range []protocol.Release{c.Release, c.Constraints.MinReconciler, c.Constraints.MinAPIServer} {
			if r.Major < 0 || r.Minor < 0 || r.Patch < 0 {
				return fmt.Errorf("release %s has a negative part", r)
			}
		}
	}
	return nil
}

func (e entryJSON) content() (protocol.Content, error) {
	c := protocol.Content{Digest: e.Digest, Epoch: e.ContentEpoch}
	var err error
	if c.Release, err = semver.ParseRelease(e.Release); err != nil {
		return c, err
	}
	if c.Constraints.MinReconciler, err = semver.ParseRelease(e.MinReconcilerRelease); err != nil {
		return c, fmt.Errorf("minReconcilerRelease: %w", err)
	}
	if c.Constraints.MinAPIServer, err = semver.ParseRelease(e.MinAPIServerRelease); err != nil {
		return c, fmt.Errorf("minApiserverRelease: %w", err)
	}
	return c, nil
}

// Begun returns the mark that must be in place before the first write of w's
// content: it adds that content and removes none.
func (m MarkData) Begun(w protocol.Work) MarkData {
	return MarkData{
		FirstDone: m.FirstDone || !w.First, LeaderEpoch: w.LeaderEpoch, Entries: protocol.WithEntry(slices.Clone(m.Entries), w.Content),
	}
}

// EpochTaken reports whether other content has c's epoch: a predecessor's entry that landed
// after this leader's survey. Entries that were rebuilt from stamps carry no digest, so they do
// not count as other content.
func (m MarkData) EpochTaken(c protocol.Content) bool {
	return slices.ContainsFunc(m.Entries, func(e protocol.Content) bool {
		return e.Epoch == c.Epoch && e.Digest != "" && !e.Same(c)
	})
}

// Finished returns the mark after the last list: content c alone is present.
func Finished(c protocol.Content, leaderEpoch int64) MarkData {
	return MarkData{FirstDone: true, LeaderEpoch: leaderEpoch, Entries: []protocol.Content{c}}
}

// SameContent reports whether m and o name the same content. The leader's epoch
// does not count: a new leader that changes nothing writes nothing.
func (m MarkData) SameContent(o MarkData) bool {
	return m.FirstDone == o.FirstDone && slices.Equal(sortedEntries(m.Entries), sortedEntries(o.Entries))
}

// HighestEpoch returns the highest content epoch of the entries; 0: there are
// none.
func (m MarkData) HighestEpoch() int64 {
	var highest int64
	for _, c := range m.Entries {
		highest = max(highest, c.Epoch)
	}
	return highest
}

// Mark returns the mark as the protocol sees it. highest is the highest epoch of
// all stamps.
func (m MarkData) Mark(highest int64) protocol.Mark {
	return protocol.Mark{
		Kind: protocol.MarkPresent, FirstDone: m.FirstDone, Entries: sortedEntries(m.Entries),
		HighestEpoch: max(highest, m.HighestEpoch()),
	}
}

// fromStamps rebuilds a mark from the stamps on objects. Stamps prove that a
// first reconciliation was at least under way. We assume that it finished: with
// firstDone set, the leader never treats the cluster as new. For each release
// the mark names the newest content only, with the highest A of them all.
func fromStamps(stamps []Stamp) MarkData {
	byRelease := map[protocol.Release]protocol.Content{}
	for _, s := range stamps {
		c := byRelease[s.Release]
		c.Release = s.Release
		c.Epoch = max(c.Epoch, s.Epoch)
		if c.Constraints.MinAPIServer.Less(s.MinAPI) {
			c.Constraints.MinAPIServer = s.MinAPI
		}
		byRelease[s.Release] = c
	}
	out := MarkData{FirstDone: len(stamps) > 0}
	for _, c := range byRelease {
		out.Entries = append(out.Entries, c)
	}
	out.Entries = sortedEntries(out.Entries)
	return out
}

func sortedEntries(entries []protocol.Content) []protocol.Content {
	sorted := slices.Clone(entries)
	sorting.By(sorted, func(a, b protocol.Content) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), a.Release.Compare(b.Release),
			cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Bundle, b.Bundle))
	})
	return sorted
}
