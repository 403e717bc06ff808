package main

import (
	"slices"
	"strings"
	"testing"
)

// Without arguments all cases run, except those that have to be named. One for which a
// program is missing is left out, and named.
func TestChosen(t *testing.T) {
	names := func(list []benchCase) (out []string) {
		for _, c := range list {
			out = append(out, c.name)
		}
		return out
	}
	all, err := chosen("all")
	if err != nil {
		t.Fatal(err)
	}
	got := names(all)
	for name, want := range map[string]bool{"stop": true, "clients": true, "leave": false, "many": false, "growth": false} {
		if slices.Contains(got, name) != want {
			t.Errorf("all: got %v, want %s in it: %t", got, name, want)
		}
	}
	if _, err := chosen("stop,nothing"); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("a case that does not exist: got %v", err)
	}
	list, left := runnable([]benchCase{{name: "a"}, {name: "b", programs: []string{"no-such-program", "sh"}}, {name: "c", programs: []string{"sh"}}})
	if !slices.Equal(names(list), []string{"a", "c"}) || len(left) != 1 || left[0] != "NOT MEASURED: b: it needs no-such-program" {
		t.Errorf("got %v and %q", names(list), left)
	}
}
