package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// maxBytes is how many the journal may take in the store.
const maxBytes = 1 << 20

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	keys   = keyspace.Under("/lockstep/")
	ready  = protocol.Verdict{Ready: true, Reason: protocol.Ready}
	closed = protocol.Verdict{Reason: protocol.Cordoned, Message: "work on the disk"}
)

func client(t *testing.T, addr string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + addr}, Prefix: "/lockstep/", RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// run runs the journal of a node until the test ends, or until stop.
func run(t *testing.T, c *etcd.Client, node protocol.NodeID) (j *Journal, stop func()) {
	t.Helper()
	if _, err := c.Get(t.Context(), "/lockstep/x"); err != nil { // connected
		t.Fatal(err)
	}
	j = New(Config{Client: c, Node: node, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = j.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return j, stop
}

func follower(node protocol.NodeID) history.Facts {
	return history.Facts{Node: node, Reached: true, Fleet: protocol.Fleet{Revision: 1}}
}

func listed(t *testing.T, c *etcd.Client, kind history.Kind) []history.Entry {
	t.Helper()
	all, err := List(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return history.Filter{Kind: kind}.Filtered(all)
}

// await waits, by a watch, until the store is as wanted.
func await(t *testing.T, server *etcdtest.Server, c *etcd.Client, what string, ok func([]history.Entry) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := server.Client(t).Watch(ctx, keys.History(), clientv3.WithPrefix(), clientv3.WithRev(1))
	for {
		all, err := List(t.Context(), c)
		if err == nil && ok(all) {
			return
		}
		if _, open := <-watch; !open {
			t.Fatalf("%s: not in time; %+v, %v", what, all, err)
		}
	}
}

func TestJournal_twentyClosings(t *testing.T) {
	server := etcdtest.New(t)
	c := client(t, server.Addr())
	j, stop := run(t, c, "cp-2")
	j.Verdict(protocol.Verdict{}, ready)
	for range 20 {
		j.Verdict(ready, closed)
		j.Verdict(closed, ready)
	}
	stop() // writes what is left
	got := listed(t, c, history.Gate)
	if len(got) != 1 || got[0].Count != 20 || got[0].Open() || got[0].Node != "cp-2" || got[0].Reason != protocol.Cordoned {
		t.Errorf("got %+v, want one entry of 20 closings", got)
	}
	if got := listed(t, c, history.Sidecar); len(got) != 1 || got[0].Open() {
		t.Errorf("got %+v, want that the sidecar started", got)
	}
}

// TestJournal_counts: each closing is counted, and one line of the log reports the entry.
func TestJournal_counts(t *testing.T) {
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	j := New(Config{Client: client(t, etcdtest.New(t).Addr()), Node: "cp-2", Log: slog.New(slog.NewTextHandler(&log, nil)), Registerer: reg})
	j.Verdict(protocol.Verdict{}, ready)
	for range 20 {
		j.Verdict(ready, closed)
		j.Verdict(closed, ready)
	}
	if got := testutil.ToFloat64(j.metrics.happenings.WithLabelValues("gate")); got != 20 {
		t.Errorf("got %v closings, want 20", got)
	}
	if got := strings.Count(log.String(), `msg=happened kind=gate about=cp-2 reason=Cordoned message="work on the disk"`); got != 1 {
		t.Errorf("got %d lines, want one:\n%s", got, log.String())
	}
}

// TestJournal_idle: a journal sends nothing while nothing happens, however often it learns of that.
func TestJournal_idle(t *testing.T) {
	server := etcdtest.New(t)
	c := client(t, server.Addr())
	j, stop := run(t, c, "a")
	j.Verdict(protocol.Verdict{}, ready)
	await(t, server, c, "the start", func(all []history.Entry) bool { return len(all) == 1 && !all[0].Open() })
	for j.due() { // until it has the answer of etcd
		runtime.Gosched()
	}
	before := c.Contact().Get()
	for range 1000 {
		j.Observe(follower("a"))
	}
	stop()
	if after := c.Contact().Get(); after != before {
		t.Errorf("it has sent requests: %+v, before %+v", after, before)
	}
}

// TestJournal_storm: what happens all the time is written at most once a second.
func TestJournal_storm(t *testing.T) {
	server := etcdtest.New(t)
	c := client(t, server.Addr())
	j, stop := run(t, c, "a")
	began := time.Now()
	for i := range 2000 {
		f := follower("a")
		f.Warnings = []protocol.Warning{{Reason: warn.Fight, Subject: fmt.Sprint(i % 100)}}
		j.Observe(f)
	}
	await(t, server, c, "the storm", func(all []history.Entry) bool { return len(all) > 10 })
	stop()
	resp, err := c.Get(t.Context(), keys.History(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	writes := map[int64]bool{}
	for _, kv := range resp.Kvs {
		writes[kv.ModRevision] = true
	}
	// The last ones, when it stops, do not wait: there are 100 entries in batches of 50.
	if most := int(time.Since(began)/batchTime) + 3; len(writes) > most {
		t.Errorf("it has written %d times in %s, want at most %d", len(writes), time.Since(began), most)
	}
}

// TestJournal_etcdAway: what happened while etcd did not answer is written afterwards.
func TestJournal_etcdAway(t *testing.T) {
	server := etcdtest.New(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	c, direct := client(t, proxy.Addr()), client(t, server.Addr())
	j, _ := run(t, c, "a")
	j.Verdict(protocol.Verdict{}, ready)
	proxy.Cut(etcdtest.Reset)
	if _, err := c.Get(t.Context(), "/lockstep/x"); err == nil {
		t.Fatal("etcd answers")
	}
	cut := follower("a")
	cut.EtcdProblem = "no answer"
	j.Observe(cut)
	j.Verdict(ready, closed)
	j.Verdict(closed, ready)
	if got := j.Read(t.Context()); !slices.ContainsFunc(got, func(e history.Entry) bool { return e.Kind == history.Gate }) {
		t.Errorf("without etcd, it has read %+v", got)
	}
	proxy.Restore()
	j.Observe(follower("a"))
	for err := error(context.Canceled); err != nil; { // the checks of a sidecar find out
		_, err = c.Get(t.Context(), "/lockstep/x")
	}
	await(t, server, direct, "what happened meanwhile", func(all []history.Entry) bool {
		gate := slices.ContainsFunc(all, func(e history.Entry) bool { return e.Kind == history.Gate && !e.Open() })
		return gate && slices.ContainsFunc(all, func(e history.Entry) bool { return e.Kind == history.Etcd && !e.Open() })
	})
}

// TestJournal_otherNodes: a node whose disk and sidecar are lost has a history, and the
// leader adds to it.
func TestJournal_otherNodes(t *testing.T) {
	server := etcdtest.New(t)
	c := client(t, server.Addr())
	lost, stopLost := run(t, c, "lost")
	lost.Verdict(protocol.Verdict{}, ready)
	lost.Verdict(ready, closed)
	stopLost()
	leader, stop := run(t, client(t, server.Addr()), "leader")
	facts := follower("leader")
	facts.Leading, facts.Leader, facts.Epoch = true, "leader", 5
	facts.Fleet.Records = []*protocol.Record{{ID: "lost", Revision: 7, Node: protocol.Node{Roles: protocol.Roles{Controller: true}}}}
	leader.Observe(facts)
	stop()
	all, err := List(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range (history.Filter{Node: "lost"}).Filtered(all) {
		kinds = append(kinds, string(e.Kind)+" "+string(e.Reason))
	}
	if want := []string{"sidecar Started", "gate Cordoned", "node NoPresence"}; !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
}

// TestJournal_pausedLeader: a leader that was paused does not write over its successor.
func TestJournal_pausedLeader(t *testing.T) {
	server := etcdtest.New(t)
	c := client(t, server.Addr())
	facts := func(node protocol.NodeID, cordoned bool) history.Facts {
		f := follower(node)
		f.Leading = true
		r := &protocol.Record{ID: "x", Revision: 7, Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}}}
		if cordoned {
			r.Node.Cordon.Message = "work"
		}
		f.Fleet.Records = []*protocol.Record{r}
		return f
	}
	write := func(j *Journal) error { return j.write(t.Context()) }
	paused := New(Config{Client: c, Node: "paused", Log: slog.New(slog.DiscardHandler)})
	next := New(Config{Client: c, Node: "next", Log: slog.New(slog.DiscardHandler)})
	paused.Observe(facts("paused", true))
	if err := write(paused); err != nil {
		t.Fatal(err)
	}
	next.Observe(facts("next", true))
	if err := write(next); err != nil {
		t.Fatal(err)
	}
	next.Observe(facts("next", false))
	if err := write(next); err != nil {
		t.Fatal(err)
	}
	before := listed(t, c, history.Cordon)
	paused.Observe(facts("paused", false)) // late
	if err := write(paused); err == nil {
		t.Error("it has written over its successor")
	}
	for paused.due() {
		_ = write(paused)
	}
	if got := listed(t, c, history.Cordon); len(got) != 1 || len(before) != 1 || !got[0].Until.Equal(before[0].Until) {
		t.Errorf("got %+v, want %+v", got, before)
	}
}

// TestJournal_bounded: the store has never more than it may have for long, and upgrades stay.
func TestJournal_bounded(t *testing.T) {
	server := etcdtest.New(t)
	c, raw := client(t, server.Addr()), server.Client(t)
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range history.MaxEntries {
		e := history.Entry{
			Time: at.Add(time.Duration(i) * time.Second), Until: at.Add(time.Duration(i) * time.Second), Kind: history.Warning,
			Node: protocol.NodeID(fmt.Sprint("n", i)), Message: strings.Repeat("x", history.MaxMessage), Count: 1,
		}
		if i == 0 {
			e.Kind = history.Upgrade
		}
		value, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Put(t.Context(), keys.HistoryEntry(fmt.Sprint(i)), string(value)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := raw.Put(t.Context(), keys.HistoryEntry("newer"), "of a newer program"); err != nil {
		t.Fatal(err)
	}
	j, stop := run(t, c, "a")
	j.Verdict(protocol.Verdict{}, ready)
	await(t, server, c, "pruned", func(all []history.Entry) bool {
		return len(all) <= history.MaxEntries && len(all) >= history.MaxEntries-2*room
	})
	stop()
	for _, kind := range []history.Kind{history.Upgrade, history.Sidecar} {
		if len(listed(t, c, kind)) != 1 {
			t.Errorf("the entry of kind %s was deleted", kind)
		}
	}
	size := 0
	resp, err := raw.Get(t.Context(), keys.History(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		size += len(kv.Key) + len(kv.Value)
	}
	if size > maxBytes {
		t.Errorf("they have %d bytes", size)
	}
}

// TestEntry_size: the largest entry fits a thousand times.
func TestEntry_size(t *testing.T) {
	e := history.Entry{
		Time: time.Now(), Until: time.Now(), Kind: history.Upgrade, Node: protocol.NodeID(strings.Repeat("n", 63)), Reason: "ServicesNotReady",
		Message: strings.Repeat("x", history.MaxMessage), Count: 1000, Lasted: 1 << 50,
		Out: map[protocol.NodeID]time.Duration{}, Waits: map[protocol.NodeID]time.Duration{},
	}
	for i := range history.MaxNodes {
		e.Out[protocol.NodeID(fmt.Sprintf("cp-%d.example.com", i))], e.Waits[protocol.NodeID(fmt.Sprintf("cp-%d.example.com", i))] = 1<<50, 1<<50
	}
	value, err := json.Marshal(e)
	if err != nil || len(value)*history.MaxEntries > maxBytes+maxBytes/4 {
		t.Errorf("got %d bytes, %v", len(value), err)
	}
}
