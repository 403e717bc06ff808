package reconcile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// record is what the parent says, decoded: the mark (DESIGN 6.4), and who last
// began to write.
type record struct {
	firstDone   bool
	leaderEpoch int64
	entries     []protocol.Content
}

// markKey is where the record stands in the parent's data.
const markKey = "mark.json"

// markJSON is the record's form in the API. Unknown fields are passed over:
// a newer sidecar may have written them, and an older one has to lead on.
type markJSON struct {
	FirstDone   bool        `json:"firstDone"`
	LeaderEpoch int64       `json:"leaderEpoch"`
	Entries     []entryJSON `json:"entries"`
}

type entryJSON struct {
	Release              string `json:"release"`
	MinReconcilerRelease string `json:"minReconcilerRelease"`
	MinAPIServerRelease  string `json:"minApiserverRelease"`
	Digest               string `json:"digest"`
	ContentEpoch         int64  `json:"contentEpoch"`
}

// encodeMark is the inverse of decodeMark, with the entries by epoch.
func encodeMark(r record) (string, error) {
	out := markJSON{FirstDone: r.firstDone, LeaderEpoch: r.leaderEpoch, Entries: []entryJSON{}}
	for _, c := range sortedEntries(r.entries) {
		out.Entries = append(out.Entries, entryJSON{
			Release:              c.Release.String(),
			MinReconcilerRelease: c.Constraints.MinReconciler.String(),
			MinAPIServerRelease:  c.Constraints.MinApiserver.String(),
			Digest:               c.Digest,
			ContentEpoch:         c.Epoch,
		})
	}
	data, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encode the mark: %w", err)
	}
	return string(data), nil
}

// decodeMark decodes all of a mark or nothing: half of one would forget content
// that may be present.
func decodeMark(data string) (record, error) {
	var in markJSON
	if err := json.Unmarshal([]byte(data), &in); err != nil {
		return record{}, &MarkError{Reason: err.Error()}
	}
	out := record{firstDone: in.FirstDone, leaderEpoch: in.LeaderEpoch}
	for _, e := range in.Entries {
		c, err := e.content()
		if err != nil {
			return record{}, &MarkError{Reason: err.Error()}
		}
		out.entries = append(out.entries, c)
	}
	if out.firstDone && len(out.entries) == 0 {
		return record{}, &MarkError{Reason: "firstDone is set, and no content is named"}
	}
	return out, nil
}

func (e entryJSON) content() (protocol.Content, error) {
	c := protocol.Content{Digest: e.Digest, Epoch: e.ContentEpoch}
	var err error
	if c.Release, err = protocol.ParseRelease(e.Release); err != nil {
		return c, err
	}
	if c.Constraints.MinReconciler, err = protocol.ParseRelease(e.MinReconcilerRelease); err != nil {
		return c, fmt.Errorf("minReconcilerRelease: %w", err)
	}
	if c.Constraints.MinApiserver, err = protocol.ParseRelease(e.MinAPIServerRelease); err != nil {
		return c, fmt.Errorf("minApiserverRelease: %w", err)
	}
	if e.ContentEpoch < 1 || e.ContentEpoch > maxEpoch {
		return c, fmt.Errorf("content epoch %d is out of range", e.ContentEpoch)
	}
	return c, nil
}

// begun is the record as it has to stand before the first write of content: the
// content is added and none dropped.
func (r record) begun(w protocol.Work) record {
	out := record{firstDone: r.firstDone || !w.First, leaderEpoch: w.LeaderEpoch, entries: slices.Clone(r.entries)}
	if !slices.Contains(out.entries, w.Content) {
		out.entries = append(out.entries, w.Content)
	}
	return out
}

// taken reports whether other content has c's epoch: an entry of a predecessor
// that landed after this leader's survey. What was rebuilt from stamps bears no
// digest, and is not known to be other content.
func (r record) taken(c protocol.Content) bool {
	return slices.ContainsFunc(r.entries, func(e protocol.Content) bool {
		return e.Epoch == c.Epoch && e.Digest != "" && !e.Same(c)
	})
}

// finished is the record after the last list: content alone is present.
func (r record) finished(c protocol.Content, leaderEpoch int64) record {
	return record{firstDone: true, leaderEpoch: leaderEpoch, entries: []protocol.Content{c}}
}

// sameContent reports whether r and o say the same of the content. Who wrote
// last does not count: a take-over that changes nothing writes nothing.
func (r record) sameContent(o record) bool {
	return r.firstDone == o.firstDone && slices.Equal(sortedEntries(r.entries), sortedEntries(o.entries))
}

func (r record) highestEpoch() int64 {
	var highest int64
	for _, c := range r.entries {
		highest = max(highest, c.Epoch)
	}
	return highest
}

// mark is the record as the protocol sees it; highest is that of all stamps.
func (r record) mark(highest int64) protocol.Mark {
	return protocol.Mark{
		Kind: protocol.MarkPresent, FirstDone: r.firstDone, Entries: sortedEntries(r.entries),
		HighestEpoch: max(highest, r.highestEpoch()),
	}
}

// madeAnew is the record of a parent that was deleted or damaged. Beside a status
// it is what the status covers, which is all that can be there. Without one the
// stamps have to serve.
func madeAnew(stamps []stamp, work protocol.Work) record {
	if work.Beside != (protocol.Content{}) {
		return record{firstDone: true, entries: []protocol.Content{work.Beside}}
	}
	return fromStamps(stamps)
}

// fromStamps rebuilds a record from what the objects say. Objects that were once
// stamped mean that a first reconciliation was under way at least; that it was
// finished is the careful reading, for with firstDone the leader takes nobody's
// gate for new. Of one release only the newest content is named, with the highest
// A of them all.
func fromStamps(stamps []stamp) record {
	byRelease := map[protocol.Release]protocol.Content{}
	for _, s := range stamps {
		c := byRelease[s.release]
		c.Release = s.release
		c.Epoch = max(c.Epoch, s.epoch)
		if c.Constraints.MinApiserver.Less(s.minAPI) {
			c.Constraints.MinApiserver = s.minAPI
		}
		byRelease[s.release] = c
	}
	out := record{firstDone: len(stamps) > 0}
	for _, c := range byRelease {
		out.entries = append(out.entries, c)
	}
	out.entries = sortedEntries(out.entries)
	return out
}

func sortedEntries(entries []protocol.Content) []protocol.Content {
	return slices.SortedFunc(slices.Values(entries), func(a, b protocol.Content) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), a.Release.Compare(b.Release), cmp.Compare(a.Digest, b.Digest))
	})
}
