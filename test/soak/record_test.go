package soak

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// TestRecord feeds a recorder by hand: how it decodes changes, and to whom it
// attributes them.
func TestRecord(t *testing.T) {
	r, err := newRecorder(nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	revision := int64(0)
	add := func(deleted bool, key, value string) judge.Event {
		t.Helper()
		revision++
		ev := &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), ModRevision: revision, Version: 1}}
		if deleted {
			ev.Type = clientv3.EventTypeDelete
		}
		r.record([]*clientv3.Event{ev})
		h := r.historySoFar()
		if len(h.Events) == 0 || h.Events[len(h.Events)-1].Revision != revision {
			return judge.Event{}
		}
		return h.Events[len(h.Events)-1]
	}
	key := "/registry/configmaps/platform/settings"
	object := func(form, edit string) string {
		obj := keptObjects[2].object(form)
		obj.SetUID("u")
		annotations := map[string]string{"lockstep.dev/content-epoch": "4", "lockstep.dev/release": "1.1.0"}
		if edit != "" {
			annotations[editAnnotation] = edit
		}
		obj.SetAnnotations(annotations)
		return encoded(t, obj)
	}
	t.Run("an object's form and stamp", func(t *testing.T) {
		e := add(false, key, object("b", ""))
		if o := e.Object; o == nil || e.Foreign || o.Ref != "ConfigMap platform/settings" || o.Form != "b" || o.Epoch != 4 ||
			o.Release != (protocol.Release{Major: 1, Minor: 1}) {
			t.Errorf("got %s", &e)
		}
	})
	t.Run("an edit is the soak's, what follows is not", func(t *testing.T) {
		if e := add(false, key, object("edited", "1")); !e.Foreign || e.Object.Form != "" {
			t.Errorf("got %s", &e)
		}
		if e := add(false, key, object("b", "1")); e.Foreign || e.Object.Form != "b" {
			t.Errorf("got %s", &e)
		}
	})
	t.Run("a deletion that the soak announced is the soak's", func(t *testing.T) {
		if e := add(true, key, ""); e.Foreign || !e.Object.Gone || e.Object.Ref != "ConfigMap platform/settings" {
			t.Errorf("got %s", &e)
		}
		add(false, key, object("b", ""))
		r.deletes("u")
		if e := add(true, key, ""); !e.Foreign {
			t.Errorf("got %s", &e)
		}
	})
	t.Run("a CRD, and the objects of its kind", func(t *testing.T) { testRecordCRD(t, r, add) })
	t.Run("the mark", func(t *testing.T) { testRecordMark(t, r, add) })
	t.Run("the status", func(t *testing.T) {
		if e := add(false, r.keys.Status(), garbage+"1"); !e.Foreign || e.Status.Kind != protocol.StatusUndecodable {
			t.Errorf("got %s", &e)
		}
		if e := add(true, r.keys.Status(), ""); e.Foreign || e.Status.Kind != protocol.StatusAbsent {
			t.Errorf("got %s", &e)
		}
		r.deletesStatus()
		if e := add(true, r.keys.Status(), ""); !e.Foreign {
			t.Errorf("got %s", &e)
		}
	})
	t.Run("records and candidates", func(t *testing.T) {
		if e := add(false, r.keys.Node("a"), garbage+"2"); e.Record == nil || !e.Record.Corrupt || e.Record.Node != "a" {
			t.Errorf("got %s", &e)
		}
		if e := add(true, r.keys.Leader(5), ""); e.Candidate == nil || !e.Candidate.Gone {
			t.Errorf("got %s", &e)
		}
	})
	t.Run("a key that the judge does not need", func(t *testing.T) {
		if e := add(false, "/registry/leases/x", "{}"); e != (judge.Event{}) {
			t.Errorf("got %s", &e)
		}
		if r.seenUpTo() != revision {
			t.Errorf("got %d, want %d", r.seenUpTo(), revision)
		}
	})
}

// testRecordCRD: kube-apiservers write the conditions of a CRD. They delete the objects
// of a kind whose CRD is deleted, and no sidecar's request is among those.
func testRecordCRD(t *testing.T, r *recorder, add func(deleted bool, key, value string) judge.Event) {
	t.Helper()
	key, object := "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets", "/registry/soak.lockstep.dev/widgets/platform"
	crd := func(uid, form, condition string, more map[string]any) string {
		k, _ := findKept("CustomResourceDefinition widgets." + widgetGroup)
		obj := k.object(form)
		obj.SetUID(types.UID(uid))
		obj.SetAPIVersion("apiextensions.k8s.io/v1beta1") // as it is stored
		obj.Object["status"] = map[string]any{"condition": condition}
		for name, value := range more {
			if err := unstructured.SetNestedField(obj.Object, value, "metadata", name); err != nil {
				t.Fatal(err)
			}
		}
		return encoded(t, obj)
	}
	k, _ := findKept("Widget platform")
	instance := k.object("b")
	instance.SetUID("w")
	if e := add(false, key, crd("c", "a", "", nil)); e.Foreign || e.Object.Form != "a" {
		t.Errorf("got %s", &e)
	}
	if e := add(false, key, crd("c", "a", "Established", map[string]any{"finalizers": []any{"x"}})); e != (judge.Event{}) {
		t.Errorf("got %s, want nothing for a write of conditions", &e)
	}
	if e := add(false, key, crd("c", "b", "Established", nil)); e.Foreign || e.Object.Form != "b" {
		t.Errorf("got %s", &e)
	}
	if e := add(false, object, encoded(t, instance)); e.Foreign || e.Object.Ref != "Widget platform" || e.Object.Form != "b" {
		t.Errorf("got %s", &e)
	}
	if e := add(true, object, ""); e.Foreign || !e.Object.Gone {
		t.Errorf("got %s, want a deletion by a sidecar", &e)
	}
	add(false, object, encoded(t, instance))
	r.deletes("c")
	if e := add(false, key, crd("c", "b", "Terminating", map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"})); !e.Foreign {
		t.Errorf("got %s, want a write by the soak", &e)
	}
	if e := add(true, object, ""); !e.Foreign || !e.Object.Gone {
		t.Errorf("got %s, want a deletion that the soak has caused", &e)
	}
	if e := add(true, key, ""); !e.Foreign || !e.Object.Gone {
		t.Errorf("got %s, want a deletion by the soak", &e)
	}
	if e := add(false, key, crd("d", "b", "", nil)); e.Foreign || e.Object.Form != "b" {
		t.Errorf("got %s, want a creation by a sidecar", &e)
	}
	r.cleaning = 0 // as after a while
	add(false, object, encoded(t, instance))
	if e := add(true, object, ""); e.Foreign {
		t.Errorf("got %s, want a deletion by a sidecar", &e)
	}
}

func encoded(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func testRecordMark(t *testing.T, r *recorder, add func(deleted bool, key, value string) judge.Event) {
	t.Helper()
	key := "/registry/configmaps/kube-system/lockstep"
	parent := func(text string) string {
		value, err := json.Marshal(map[string]any{
			"kind": "ConfigMap", "metadata": map[string]any{"namespace": "kube-system", "name": "lockstep", "uid": "p"},
			"data": map[string]any{"mark.json": text, "inventory": "abc"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	e := add(false, key, parent(`{"firstDone": true, "entries": [{"release": "1.1.0", "contentEpoch": 4}]}`))
	want := judge.Entry{Release: protocol.Release{Major: 1, Minor: 1}, Epoch: 4}
	if e.Foreign || e.Mark == nil || !e.Mark.FirstDone || e.Mark.Damaged || !slices.Equal(e.Mark.Entries, []judge.Entry{want}) {
		t.Errorf("got %s", &e)
	}
	if e := add(false, key, parent("{")); e.Mark == nil || !e.Mark.Damaged {
		t.Errorf("got %s", &e)
	}
	r.deletes("p")
	if e := add(true, key, ""); !e.Foreign || e.Mark == nil || !e.Mark.Gone {
		t.Errorf("got %s", &e)
	}
}

// TestRecord_awayMember: the first member does not run. It was removed, and the client waits longer and longer
// before it connects again.
func TestRecord_awayMember(t *testing.T) {
	away, err := cluster.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	member := etcdtest.New(t)
	r, err := newRecorder([]string{"http://" + away, member.Endpoints()[0]}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	recorded := make(chan error, 1) // the one result
	go func() { recorded <- r.run(ctx) }()
	if _, err := member.Client(t).Put(t.Context(), "a", "1"); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "the revision to be read", func(context.Context) error {
		if _, behind := r.progress(); !behind && r.seenUpTo() < 2 {
			return errors.New("it is not")
		}
		return nil
	})
	if err := r.catchUp(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-recorded; err != nil {
		t.Error(err)
	}
	for _, c := range r.clients {
		_ = c.Close() // it reports the end of its own context
	}
}
