package protocol

import (
	"fmt"
	"strings"
	"testing"
)

func TestValidBundleName(t *testing.T) {
	for name, want := range map[string]bool{
		"base": true, "acme.example-2": true, "0": true, strings.Repeat("a", MaxBundleName): true,
		"": false, "Acme": false, "a b": false, "-a": false, "a.": false, "a/b": false, "ä": false, strings.Repeat("a", MaxBundleName+1): false,
	} {
		if got := ValidBundleName(name); got != want {
			t.Errorf("%q: got %t, want %t", name, got, want)
		}
	}
}

func TestNext_holdsForBundle(t *testing.T) {
	entry := contentOf("1.0.0", "0.9.0", 4)
	marked := func(entries ...Content) Mark {
		return Mark{Kind: MarkPresent, FirstDone: true, Entries: entries, HighestEpoch: 4}
	}
	theirs := presentStatus(doneStatus("1.0.0").of("acme"))
	old := presentStatus(doneStatus("1.0.0"))
	const (
		hold   = "Hold (HoldForBundle)"
		starts = "Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@5 digest=d1.1 epoch=7 drained=0 leader=me bundle=base if epoch=7 status=50"
		named  = "Write (HoldForBundle) DONE version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me bundle=acme if epoch=7 status=50"
	)
	runNext(t, []nextCase{
		{"objects of another bundle", given(theirs).of("base").mark(marked(entry)), hold},
		{"also those of the same release", given(presentStatus(targetStatus().of("acme"))).of("base"), hold},
		{"of its own bundle", given(presentStatus(doneStatus("1.0.0").of("base"))).of("base").mark(marked(entry)), starts},
		{"a leader without a name compares none", given(theirs).mark(marked(entry)),
			"Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@5 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"a replacement, which is used once", given(theirs).of("base").mark(marked(entry)).replaces("acme", "base"), starts + " replacement=60"},
		{"a replacement of another bundle", given(theirs).of("base").replaces("other", "base"), hold},
		{"a replacement the other way round", given(theirs).of("base").replaces("base", "acme"), hold},
		{"a replacement while the leader runs what is there", given(presentStatus(targetStatus().by("me", 7).of("acme"))).of("acme").replaces("acme", "base").
			progress(Progress{Finished: ownContent(4).of("acme")}), "Hold (KeepTarget)"},
		{"a rename is a replacement", given(presentStatus(targetStatus().by("me", 7).of("acme"))).of("base").replaces("acme", "base"),
			"Write (KeepTarget) DONE version=1.1.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me bundle=base if epoch=7 status=50 replacement=60"},
		{"a restricted status keeps the name and the replacement",
			given(presentStatus(doneStatus("0.9.0").of("acme"))).of("base").replaces("acme", "base"),
			"Write (WaitForNodes) WORKING version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me bundle=acme if epoch=7 status=50 fleet<=100"},

		{"a status without a name: the mark is read", given(old).of("base"), "Survey (HoldForBundle)"},
		{"and the leader's name counts where the mark has none", given(old).of("base").mark(marked(entry)), starts},
		{"a status without a name, of the leader's own content", given(presentStatus(targetStatus())).of("base"),
			"Write (KeepTarget) DONE version=1.1.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me bundle=base if epoch=7 status=50"},
		{"the mark's name is written into the status", given(old).of("base").mark(marked(entry.of("acme"))), named},
		{"also with a replacement, which is used only then", given(old).of("base").mark(marked(entry.of("acme"))).replaces("acme", "base"), named},
		{"the newest entry with a name counts", given(old).of("base").mark(marked(contentOf("1.0.0", "0.9.0", 2).of("base"), contentOf("1.0.0", "0.9.0", 3).of("acme"), entry)), named},
		{"a node that runs what is there knows its name",
			func() Input {
				in := given(old).of("base").mark(marked(entry))
				in.Fleet.Records = append(in.Fleet.Records, controller("n", "1.0.0").runs("acme", "d1.0"))
				return in
			}(), named},

		{"without a status, the mark's name counts", given(absentStatus()).of("base").mark(marked(entry.of("acme"))), hold},
		{"also before the first reconciliation is done", given(absentStatus()).of("base").mark(Mark{Kind: MarkPresent, Entries: []Content{entry.of("acme")}, HighestEpoch: 4}), hold},
		{"or the status is corrupt", given(corruptStatus()).of("base").mark(marked(entry.of("acme"))), hold},
		{"with a replacement it is rebuilt", given(absentStatus()).of("base").mark(marked(entry.of("acme"))).replaces("acme", "base"),
			"Write (RebuildStatus) WORKING version=1.0.0 min=0.9.0 content=1.0.0@4 digest=d1.0.0 epoch=7 drained=0 leader=me bundle=acme if epoch=7 status=0"},
		{"a mark without a name", given(absentStatus()).of("base").mark(marked(entry)),
			"Write (RebuildStatus) WORKING version=1.0.0 min=0.9.0 content=1.0.0@4 digest=d1.0.0 epoch=7 drained=0 leader=me if epoch=7 status=0"},
	})
}

// The message says which node runs what, and has the command.
func TestNext_holdForBundleMessage(t *testing.T) {
	in := given(presentStatus(doneStatus("1.0.0").of("acme"))).of("base")
	in.Fleet.Records = []*Record{
		controller("a", "1.0.0").runs("acme", "d1.0"), controller("b", "1.0.0"), controller("me", "1.1.0").runs("base", "d1.1"), controller("w", "1.0.0").worker(),
	}
	const want = "the objects are of the bundle acme, and this leader runs base: it applies and repairs nothing " +
		"(a bundle of unknown name on b; acme on a; base on me); start the nodes that run base with the bundle acme (--bundle), " +
		"or if base is meant to replace acme: sidecar bundle replace --from acme --to base"
	if got := Next(in).Message; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// In a fleet of any size, the message has the command before a presence cuts it off.
func TestNext_holdForBundleMessage_bounded(t *testing.T) {
	in := given(presentStatus(doneStatus("1.0.0").of("acme"))).of("base")
	for i := range 200 {
		in.Fleet.Records = append(in.Fleet.Records, controller(fmt.Sprintf("node-%d.example.com", i), "1.0.0").runs("acme", "d1.0"))
	}
	got := Next(in).Message
	if len(got) > MaxWarningMessage || !strings.HasSuffix(got, "--from acme --to base") || !strings.Contains(got, "and 192 more") {
		t.Errorf("got %s", got)
	}
}

// A pass over content replaces the entry that a program has written without a name.
func TestMark_withName(t *testing.T) {
	c := contentOf("1.0.0", "0.9.0", 4)
	m := Mark{Kind: MarkPresent, Entries: []Content{c}}.With(c.of("acme"))
	if len(m.Entries) != 1 || m.Bundle() != "acme" {
		t.Errorf("got %v", m.Entries)
	}
	if m = m.With(contentOf("1.1.0", "0.9.0", 5)); len(m.Entries) != 2 || m.Bundle() != "acme" {
		t.Errorf("got %v", m.Entries)
	}
}
