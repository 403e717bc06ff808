package service

import (
	"slices"
	"testing"
)

func changing(name, command, restart string) Service {
	return Service{Name: name, Role: "controller", Restart: restart, Process: &Process{Command: []string{command}}}
}

// A changed service that takes turns keeps running as it was, and new ones wait for it. Other
// services change at once.
func TestHeld(t *testing.T) {
	a, b, c := changing("a", "1", ""), changing("b", "1", RestartImmediately), changing("c", "1", "")
	a2, b2 := changing("a", "2", ""), changing("b", "2", RestartImmediately)
	otherRole := Service{Name: "w", Role: "worker", Process: &Process{Command: []string{"1"}}}
	otherRole2 := Service{Name: "w", Role: "worker", Process: &Process{Command: []string{"2"}}}
	optedOut := changing("a", "2", RestartImmediately)
	for name, tt := range map[string]struct {
		now, found, held []Service
		names            []string
	}{
		"nothing has changed":          {[]Service{a, b}, []Service{a, b}, []Service{a, b}, nil},
		"one that takes turns":         {[]Service{a, b}, []Service{a2, b}, []Service{a, b}, []string{"a"}},
		"both have changed":            {[]Service{a, b}, []Service{a2, b2}, []Service{a, b2}, []string{"a"}},
		"it does not take turns now":   {[]Service{a, b}, []Service{optedOut, b}, []Service{optedOut, b}, nil},
		"its file is removed":          {[]Service{a, b}, []Service{b}, []Service{a, b}, []string{"a"}},
		"it has another name":          {[]Service{a}, []Service{c}, []Service{a}, []string{"a"}},
		"another name, at once":        {[]Service{a}, []Service{changing("c", "1", RestartImmediately)}, []Service{a}, []string{"a"}},
		"a new one beside":             {[]Service{a}, []Service{a, c}, []Service{a, c}, nil},
		"another role takes no turns":  {[]Service{a, otherRole}, []Service{a, otherRole2}, []Service{a, otherRole2}, nil},
		"only how it is started again": {[]Service{b}, []Service{changing("b", "1", "")}, []Service{changing("b", "1", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			held, names := Held("controller", tt.now, tt.found)
			same := func(x, y Service) bool { return x.Equal(y) && x.Name == y.Name && x.Restart == y.Restart }
			if !slices.EqualFunc(held, tt.held, same) || !slices.Equal(names, tt.names) {
				t.Errorf("got %+v, %q, want %+v, %q", held, names, tt.held, tt.names)
			}
		})
	}
}
