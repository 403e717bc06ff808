package service

import "slices"

// The values of restart in the file of a service. RestartImmediately is the default: it is
// started again as soon as its file has changed, on all nodes at once if all files change. With
// RestartInTurn, the nodes start it again one after another.
const (
	RestartImmediately = "immediately"
	RestartInTurn      = "in-turn"
)

// Held are the services to run while those that have changed wait for a turn of their node, and the
// names of these. None waits if names is empty: then held is found. Only services of the role wait,
// that of controllers: clients use those.
func Held(role string, now, found []Service) (held []Service, names []string) {
	waits := func(s Service) bool {
		i := slices.IndexFunc(found, func(f Service) bool { return f.Name == s.Name })
		if i < 0 {
			return s.Role == role && s.Restart == RestartInTurn
		}
		return s.Role == role && found[i].Restart == RestartInTurn && !s.Equal(found[i])
	}
	for _, s := range now {
		if waits(s) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return found, nil
	}
	for _, s := range now {
		switch i := slices.IndexFunc(found, func(f Service) bool { return f.Name == s.Name }); {
		case slices.Contains(names, s.Name):
			held = append(held, s)
		case i >= 0:
			held = append(held, found[i])
		}
	}
	for _, f := range found {
		isNew := !slices.ContainsFunc(now, func(s Service) bool { return s.Name == f.Name })
		// What is new may need what waits: its port, for example.
		if isNew && (f.Role != role || f.Restart != RestartInTurn) {
			held = append(held, f)
		}
	}
	return held, names
}

// Used reports whether one of these services may be in use: it runs, and has been ready.
func (s State) Used(names []string) bool {
	return slices.ContainsFunc(s.Services, func(st Status) bool {
		return slices.Contains(names, st.Name) && st.wasReady && (st.Phase == Running || st.Phase == Stopping)
	})
}
