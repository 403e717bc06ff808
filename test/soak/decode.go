package soak

import (
	"encoding/json"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// wanted returns a CRD without its conditions, its finalizers, its managed fields and
// its resourceVersion. Kube-apiservers write these.
func wanted(value []byte) string {
	live := unstructured.Unstructured{Object: decodeWhole(value)}
	for _, field := range [][]string{
		{"status"}, {"metadata", "managedFields"}, {"metadata", "finalizers"}, {"metadata", "resourceVersion"},
	} {
		unstructured.RemoveNestedField(live.Object, field...)
	}
	text, err := json.Marshal(live.Object)
	if err != nil {
		panic(err) // it was JSON
	}
	return string(text)
}

// decodeMark decodes the mark as docs/protocol-objects.md#mark describes it.
func decodeMark(text string) *judge.Mark {
	var in struct {
		FirstDone bool
		Entries   []struct {
			Release      string
			ContentEpoch int64
		}
	}
	out := &judge.Mark{Note: text}
	if json.Unmarshal([]byte(text), &in) != nil {
		out.Damaged = true
		return out
	}
	out.FirstDone = in.FirstDone
	for _, e := range in.Entries {
		r, err := semver.ParseRelease(e.Release)
		out.Damaged = out.Damaged || err != nil
		out.Entries = append(out.Entries, judge.Entry{Release: r, Epoch: e.ContentEpoch})
	}
	return out
}

func stampOf(annotations map[string]string) (int64, protocol.Release) {
	epoch, err := strconv.ParseInt(annotations["lockstep.dev/content-epoch"], 10, 64)
	if err != nil || epoch < 1 {
		return 0, protocol.Release{}
	}
	r, err := semver.ParseRelease(annotations["lockstep.dev/release"])
	if err != nil {
		return 0, protocol.Release{}
	}
	return epoch, r
}

func decodeRollback(kv *mvccpb.KeyValue, gone bool) *judge.Rollback {
	if gone {
		return &judge.Rollback{Gone: true}
	}
	out := etcd.NewKV(kv)
	r := fleet.DecodeRollback(out.Key, etcd.Listing{KVs: []*etcd.KV{&out}})
	return &judge.Rollback{To: r.To, Gone: !r.On()}
}
