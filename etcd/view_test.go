package etcd

import (
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A view and a linearizable reading of one history never contradict each other,
// whichever is newer. Each case is a key in the view and in the reading.
func TestView(t *testing.T) {
	kv := func(create, mod, version int64) *KV {
		return &KV{Key: "k", CreateRevision: create, ModRevision: mod, Version: version}
	}
	other := kv(3, 5, 2)
	other.Value = []byte("other")
	tests := []struct {
		name             string
		was              *KV
		seen, listed     int64 // by the view
		now              *KV
		read             int64
		contradicts, lag bool
	}{
		{"the same", kv(3, 5, 2), 5, 5, kv(3, 5, 2), 9, false, false},
		{"neither has it", nil, 5, 5, nil, 9, false, false},
		{"written again", kv(3, 5, 2), 5, 5, kv(3, 8, 3), 9, false, true},
		{"deleted", kv(3, 5, 2), 5, 5, nil, 9, false, true},
		{"deleted and created again", kv(3, 5, 2), 5, 5, kv(7, 8, 2), 9, false, true},
		{"created", nil, 5, 5, kv(7, 8, 2), 9, false, true},
		{"created, and the view has seen more since", nil, 12, 5, kv(7, 8, 2), 9, false, false},
		{"created before another event that the watch reported", nil, 9, 5, kv(7, 8, 2), 9, false, true},
		{"the view is newer than the reading", kv(3, 12, 4), 12, 5, kv(3, 8, 3), 9, false, false},
		{"the view is newer, and the key is deleted there", nil, 12, 12, kv(3, 5, 2), 9, false, false},

		{"turned back", kv(3, 5, 2), 5, 5, kv(3, 4, 1), 9, true, true},
		{"turned back, and written again", kv(3, 5, 4), 5, 5, kv(3, 8, 3), 9, true, true},
		{"turned back, and written as often", kv(3, 5, 4), 5, 5, kv(3, 8, 4), 9, true, true},
		{"created before it was written last", kv(3, 5, 2), 5, 5, kv(4, 8, 2), 9, true, true},
		{"the same revision with another value", kv(3, 5, 2), 5, 5, other, 9, true, true},
		{"there before the listing, which did not have it", nil, 5, 5, kv(3, 4, 2), 9, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := view{At: At{Revision: test.seen}, listed: test.listed, kvs: keyed(test.was)}
			r := reading{view: view{At: At{Revision: test.read}, kvs: keyed(test.now)}}
			if got := v.contradicts(r); got != test.contradicts {
				t.Errorf("contradicts: got %v, want %v", got, test.contradicts)
			}
			if got := v.lags(r); got != test.lag {
				t.Errorf("lags: got %v, want %v", got, test.lag)
			}
			r.Rewinds = 1
			if v.contradicts(r) || v.lags(r) {
				t.Error("compared with a reading from after the store went back")
			}
			if (view{}).contradicts(r) {
				t.Error("a view that was never listed contradicts a reading")
			}
		})
	}
	t.Run("without values, the revisions decide", func(t *testing.T) {
		v := view{At: At{Revision: 5}, listed: 5, kvs: keyed(kv(3, 5, 2))}
		r := reading{view: view{At: At{Revision: 9}, kvs: keyed(other)}, keysOnly: true}
		if v.contradicts(r) || v.lags(r) {
			t.Error("a reading without values differs in a value")
		}
	})
}

// A watch that began before the listing reports what the listing contains already.
func TestFollower_receiveOld(t *testing.T) {
	was := &KV{Key: "k", CreateRevision: 3, ModRevision: 5, Version: 2}
	f := &follower{view: view{At: At{Revision: 9}, listed: 9, kvs: keyed(was), sorted: []*KV{was}}, report: func(l Listing) {
		t.Errorf("reported %+v", l)
	}}
	for _, kind := range []mvccpb.Event_EventType{clientv3.EventTypePut, clientv3.EventTypeDelete} {
		old := &clientv3.Event{Type: kind, Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: 3, ModRevision: 4, Version: 1}}
		if err := f.receive(t.Context(), nil, clientv3.WatchResponse{Events: []*clientv3.Event{old}}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if f.view.kvs["k"] != was {
		t.Errorf("got %+v, want %+v", f.view.kvs["k"], was)
	}
}

func keyed(kv *KV) map[string]*KV {
	if kv == nil {
		return map[string]*KV{}
	}
	return map[string]*KV{kv.Key: kv}
}
