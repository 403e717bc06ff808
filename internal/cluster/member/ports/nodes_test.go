package ports

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A node is known as long as it has a connection, however old, and for some time after that.
func TestNodes_longConnection(t *testing.T) {
	n, now := &nodes{seen: map[netip.Addr]time.Time{}, open: map[netip.Addr]int{}}, time.Unix(1e9, 0)
	known := func() bool {
		n.forget(now)
		return slices.Contains(n.addresses(), node)
	}
	n.enter(node, now)
	n.enter(node, now)
	n.leave(node, now)
	if now = now.Add(2 * nodeAge); !known() {
		t.Error("the address of a node with a connection is forgotten")
	}
	n.leave(node, now)
	if now = now.Add(nodeAge - time.Hour); !known() {
		t.Error("the address of a node is forgotten when its connection ends")
	}
	if now = now.Add(2 * time.Hour); known() || len(n.open) != 0 {
		t.Errorf("an old address is never forgotten; open: %v", n.open)
	}
}

// The file is bounded, forgets old addresses, and is not written without need.
func TestNodes_file(t *testing.T) {
	file, now := filepath.Join(t.TempDir(), "nodes.json"), time.Unix(1e9, 0)
	n, err := readNodes(file, now)
	if err != nil {
		t.Fatal(err)
	}
	old := netip.MustParseAddr("10.1.0.1")
	n.leave(old, now)
	if err := n.write(now); err != nil {
		t.Fatal(err)
	}
	now = now.Add(nodeAge + 2*seenPart)
	for i := range 2 * mostNodes {
		n.leave(netip.MustParseAddr("10.0."+strconv.Itoa(i>>8)+"."+strconv.Itoa(i&255)), now.Add(time.Duration(i)))
	}
	if err := n.write(now); err != nil {
		t.Fatal(err)
	}
	if n, err = readNodes(file, now); err != nil || len(n.seen) != mostNodes || !n.seen[old].IsZero() {
		t.Errorf("got %d addresses, the old one %t, %v", len(n.seen), !n.seen[old].IsZero(), err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	n.leave(n.addresses()[0], now.Add(time.Second))
	if err := n.write(now); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written again: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "10.1.0.1") {
		t.Errorf("%s, %v", text, err)
	}
}

// An address that was noted when the clock was ahead is forgotten like others.
func TestNodes_clockAhead(t *testing.T) {
	file, now := filepath.Join(t.TempDir(), "nodes.json"), time.Unix(1e9, 0)
	if err := os.WriteFile(file, []byte(`{"10.0.0.1":"2099-01-01T00:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := readNodes(file, now)
	if err != nil || len(n.addresses()) != 1 {
		t.Fatalf("%v, %v", n.addresses(), err)
	}
	if n.forget(now.Add(nodeAge + time.Hour)); len(n.addresses()) != 0 {
		t.Errorf("it is known for longer than %s", nodeAge)
	}
}

// A damaged file is no reason not to start. Without it, or without a file, nodes are strangers until they connect.
func TestNodes_damaged(t *testing.T) {
	for name, text := range map[string]string{"null": "null", "cut off": "{", "no address": `{"x":"2026-01-01T00:00:00Z"}`} {
		file := filepath.Join(t.TempDir(), "nodes.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := readNodes(file, time.Now())
		if (err == nil) != (text == "null") || len(n.addresses()) != 0 {
			t.Errorf("%s: %v, %v", name, n.addresses(), err)
		}
		if !n.enter(node, time.Now()) || n.enter(node, time.Now()) {
			t.Errorf("%s: the first connection of a node is not the first one", name)
		}
	}
}
