package soak

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// TestNewAge: answers of sidecars count only while all writes are recorded, and
// former leaderships end only if sidecars can notice that something was lost.
func TestNewAge(t *testing.T) {
	store, err := etcdtest.Start(etcdtest.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Stop()
	r, err := newRecorder(store.Endpoints(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, c := range r.clients {
			_ = c.Close() // it reports the end of the client's context
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	recorded := make(chan error, 1) // the result, which waits until it is read
	go func() { recorded <- r.run(ctx) }()
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := r.clients[0].Put(ctx, key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(when string) { r.addProbe(judge.Probe{Node: when, Sent: r.now(), Got: r.now()}) }
	lead, err := status.Encode(protocol.Status{
		State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 1}}, Leader: "a", Epoch: 5,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	put(r.keys.Status(), lead)
	put("/registry/configmaps/platform/settings", []byte(encoded(t, keptObjects[2].object("a"))))
	answer("while it is recorded")
	before := func(now int64) int64 { return now - 1 }
	steps := []func() error{
		// The newest write is lost each time. The first is an object.
		func() error { return r.newAge(ctx, before, func() error { answer("meanwhile"); return nil }) },
		func() error { put(r.keys.Status(), lead); return nil },
		func() error { return r.newAge(ctx, before, func() error { return nil }) },
	}
	for i, do := range steps {
		if err := do(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	answer("before it is settled")
	r.settle()
	answer("afterwards")
	cancel()
	if err := <-recorded; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ages := r.histories()
	if len(ages) != 3 {
		t.Fatalf("got %d ages, want 3", len(ages))
	}
	for age, want := range []struct {
		answers []string
		former  []int64
	}{{answers: []string{"while it is recorded"}}, {}, {answers: []string{"afterwards"}, former: []int64{5, 5}}} {
		var got []string
		for _, p := range ages[age].Probes {
			got = append(got, p.Node)
		}
		if !slices.Equal(got, want.answers) || !slices.Equal(ages[age].Former, want.former) {
			t.Errorf("age %d: got answers %q and former leaderships %d, want %q and %d", age, got, ages[age].Former, want.answers, want.former)
		}
	}
}

func TestHadDuplicate(t *testing.T) {
	begun := time.Now()
	for _, test := range []struct {
		of   *node
		want bool
	}{
		{&node{begun: begun}, false},
		{&node{begun: begun, duplicates: 1}, true},
		{&node{begun: begun, duplicated: begun.Add(time.Second)}, true},
		{&node{begun: begun, duplicated: begun.Add(-time.Second)}, false},
	} {
		if got := test.of.hadDuplicate(); got != test.want {
			t.Errorf("%d more, the last one until %s: got %t", test.of.duplicates, test.of.duplicated.Sub(begun), got)
		}
	}
}
