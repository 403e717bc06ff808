package keyspace

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestUnder(t *testing.T) {
	for _, prefix := range []string{"/lockstep", "/lockstep/"} {
		k := Under(prefix)
		for got, want := range map[string]string{
			k.Node("a"):       "/lockstep/nodes/a",
			k.Presence("a"):   "/lockstep/presence/a",
			k.Duplicate("a"):  "/lockstep/duplicates/a",
			k.Status():        "/lockstep/kubernetes/reconciler/status",
			k.Store():         "/lockstep/store",
			k.Leader(0x1f):    "/lockstep/kubernetes/reconciler/leader/1f",
			k.Leaders() + "*": "/lockstep/kubernetes/reconciler/leader/*",

			k.Cluster():            "/lockstep/cluster/record",
			k.ClusterMember(0xa1):  "/lockstep/cluster/members/a1",
			k.ClusterLearner(0xa1): "/lockstep/cluster/learners/a1",
			k.RemovedMember(0xa1):  "/lockstep/cluster/removed/a1",
			k.ClusterLock():        "/lockstep/cluster/lock",
			k.JoinToken("x"):       "/lockstep/cluster/tokens/x",
		} {
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if k.NodeOf(k.Node("a.b")) != "a.b" || k.NodeOf(k.Presence("a")) != "a" {
			t.Error("NodeOf is not the inverse of Node and Presence")
		}
	}
}

func TestMemberOf(t *testing.T) {
	k := Under("/lockstep")
	for key, want := range map[string]uint64{
		k.ClusterMember(1):                       1,
		k.ClusterMember(0x8e9e05c52164694d):      0x8e9e05c52164694d,
		k.ClusterMembers():                       0,
		k.ClusterMembers() + "0":                 0,
		k.ClusterMembers() + "01":                0,
		k.ClusterMembers() + "A1":                0,
		k.ClusterMembers() + "b":                 0xb,
		k.ClusterMembers() + "node":              0,
		k.ClusterMembers() + "10000000000000000": 0,
	} {
		if got := MemberOf(key); got != want {
			t.Errorf("%s: got %x, want %x", key, got, want)
		}
	}
	for text, want := range map[string]bool{"8E9e": true, "008e": true, "": false, "0": false, "b.example": false} {
		if _, got := ParseMemberID(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

// Every key that this package names is in one part, so that a store can be deleted.
func TestParts(t *testing.T) {
	k := Under("/lockstep/tenant")
	parts := slices.Concat(k.StoreParts(), k.ClusterParts())
	all := reflect.ValueOf(k)
	for i := range all.NumMethod() {
		name, method := all.Type().Method(i).Name, all.Method(i)
		if method.Type().NumOut() != 1 || method.Type().Out(0).Kind() != reflect.String || method.Type().Out(0) == reflect.TypeFor[protocol.NodeID]() {
			continue // it returns no key
		}
		var args []reflect.Value
		for in := range method.Type().Ins() {
			arg := reflect.New(in).Elem()
			if arg.Kind() == reflect.String {
				arg.SetString("a")
			}
			args = append(args, arg)
		}
		key := method.Call(args)[0].String()
		in := slices.DeleteFunc(slices.Clone(parts), func(part string) bool {
			return key != part && (!strings.HasSuffix(part, "/") || !strings.HasPrefix(key, part))
		})
		if len(in) != 1 {
			t.Errorf("%s: %s is in the parts %q, want one", name, key, in)
		}
	}
}
