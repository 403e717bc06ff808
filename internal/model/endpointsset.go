package model

import (
	"fmt"
	"slices"
)

// nodeSet is a set of nodes, one bit each.
type nodeSet uint8

func (s nodeSet) has(i int) bool { return s&(1<<i) != 0 }

// addressOf is the address of a node.
func addressOf(i int) string { return "10.0.0." + "123"[i:i+1] }

const modelPort = 6443

// setOf is the reverse of addresses.
func setOf(addresses []string) nodeSet {
	var out nodeSet
	for i := range maxWriters {
		if slices.Contains(addresses, addressOf(i)) {
			out |= 1 << i
		}
	}
	return out
}

// String lists the nodes.
func (s nodeSet) String() string {
	out := []string{}
	for i := range maxWriters {
		if s.has(i) {
			out = append(out, fmt.Sprintf("n%d", i+1))
		}
	}
	return fmt.Sprint(out)
}
