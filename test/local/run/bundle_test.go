package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// A bundle of another name is not applied before people say so: the text has the command for this node.
func TestOtherBundle(t *testing.T) {
	next := chosen{&bundle.Bundle{Name: "acme"}, "/acme"}
	p := &printer{assets: "bin"}
	const replace = "sidecar bundle replace --from base --to acme"
	for want, n := range map[string]node{
		". /x/local.env && " + replace:                {own: joining{settings: "/x/local.env"}, dataDir: "/x/data"},
		"bin/" + replace + " --data-dir=/x/data":      {dataDir: "/x/data"},
		"bin/" + replace + " --etcd-servers=http://e": {etcdServers: []string{"http://e"}},
	} {
		if got := n.otherBundle("base", next, p); !strings.HasSuffix(got, "\n    "+want+"\n") || !strings.Contains(got, "the objects are of the bundle base, and /acme has the bundle acme") {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := n.otherBundle("acme", next, p); got != "" {
			t.Errorf("the same name: got %s", got)
		}
	}
}

func TestChosen(t *testing.T) {
	for want, objects := range map[string][]*unstructured.Unstructured{
		"acme 0.0.0, 1 object: /acme": make([]*unstructured.Unstructured, 1), "acme 0.0.0, 0 objects: /acme": nil,
	} {
		c := chosen{&bundle.Bundle{Name: "acme", Objects: objects}, "/acme"}
		if c.String() != want {
			t.Errorf("got %s, want %s", c, want)
		}
	}
}
