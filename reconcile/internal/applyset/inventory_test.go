package applyset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func keyOf(name string) Key {
	return Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "n", Name: name}
}

func inventoryOf(n int) Inventory {
	var ids []ID
	for i := range n {
		ids = append(ids, IDOf(keyOf(fmt.Sprint(i))))
	}
	return NewInventory(ids)
}

// What one sidecar writes, others read: the hash and the form are part of the
// protocol.
func TestID(t *testing.T) {
	k := Key{GroupKind: schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "Role"}, Namespace: "n", Name: "a"}
	if got := NewInventory([]ID{IDOf(k)}).encode(); got != "c6F1n1+NKp21PIRc" {
		t.Errorf("got %s", got)
	}
	seen := map[ID]Key{}
	for _, k := range []Key{
		keyOf("a"), {GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Name: "n/a"}, {GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "na"},
		{GroupKind: schema.GroupKind{Group: "ConfigMap"}, Namespace: "n", Name: "a"}, {GroupKind: schema.GroupKind{Kind: "ConfigMapn"}, Name: "a"},
	} {
		if other, taken := seen[IDOf(k)]; taken {
			t.Errorf("%v and %v have one ID", k, other)
		}
		seen[IDOf(k)] = k
	}
}

func TestInventory(t *testing.T) {
	v := inventoryOf(3).With(inventoryOf(5)).With(nil)
	if len(v) != 5 || !v.Has(keyOf("4")) || v.Has(keyOf("5")) || Inventory(nil).Has(keyOf("0")) {
		t.Errorf("got %v, want the five", v)
	}
	if got := len(inventoryOf(10_000).encode()); got > 170_000 {
		t.Errorf("10,000 objects take %d bytes of the parent", got)
	}
}

func TestInventory_codec(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 1000} {
		text := inventoryOf(n).encode()
		got, err := decodeInventory(text)
		if err != nil || !slices.Equal(got, inventoryOf(n)) {
			t.Errorf("%d: got %v, %v", n, got, err)
		}
	}
	two := inventoryOf(2).encode()
	for name, text := range map[string]string{
		"not base64": "!!!!", "a part of an ID": two[:20], "in the wrong order": two[16:] + two[:16], "twice": two[:16] + two[:16],
		"white space": two[:16] + "\n" + two[16:], "mark": `{"firstDone":true}`, "cut off": two[:31],
	} {
		if got, err := decodeInventory(text); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

// FuzzInventory: nothing but what is written is read.
func FuzzInventory(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		f.Add(inventoryOf(n).encode())
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := decodeInventory(text); err == nil && v.encode() != text {
			t.Errorf("%q is read, and written as %q", text, v.encode())
		}
	})
}

func TestStrangers(t *testing.T) {
	var all Strangers
	for _, prefix := range []string{"b", "a", "c"} {
		var some Strangers
		for i := range 8 {
			some.Add(func() Stranger { return Stranger{Key: keyOf(fmt.Sprintf("%s-%d", prefix, i))} })
		}
		all = all.With(some)
	}
	if n := len(all.First); all.Total != 24 || n != MaxStrangers || all.First[0].Key.Name != "a-0" || all.First[n-1].Key.Name != "b-1" {
		t.Errorf("got %+v, want the first ten of 24", all)
	}
}

// The name of a stranger is the choice of its writer, and the command is to be
// pasted into a shell.
func TestStranger_Command(t *testing.T) {
	role := ParentResource()
	role.Group, role.Name = "rbac.authorization.k8s.io", "roles"
	for name, want := range map[string]string{
		"a": "kubectl delete roles.rbac.authorization.k8s.io --namespace=n -- a", "system:x": "kubectl delete roles.rbac.authorization.k8s.io --namespace=n -- system:x",
		"a;reboot": "kubectl delete roles.rbac.authorization.k8s.io --namespace=n -- 'a;reboot'", "$(x)'": `kubectl delete roles.rbac.authorization.k8s.io --namespace=n -- '$(x)'\'''`,
		"--all": "kubectl delete roles.rbac.authorization.k8s.io --namespace=n -- --all",
	} {
		if got := (Stranger{Key: keyOf(name), Resource: role}).Command(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := (Stranger{Key: Key{Name: "x"}, Resource: ParentResource()}).Command(); got != "kubectl delete configmaps -- x" || strings.Contains(got, "namespace") {
		t.Errorf("got %s", got)
	}
}
