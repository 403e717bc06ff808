package service

import "slices"

// The values of restart in a service file. RestartInTurn is the default: the nodes restart the
// service one after another. With RestartImmediately, it is restarted as soon as its file changes, on
// all nodes at once if all files change.
const (
	RestartImmediately = "immediately"
	RestartInTurn      = "in-turn"
)

// InTurn reports whether the service is restarted in a turn of its node.
func (s Service) InTurn() bool { return s.Restart != RestartImmediately }

// Held returns the services to run while changed ones wait for a turn of their node, and the names
// of the waiting ones. If names is empty, none waits, and held is found. Only services of role
// wait. The caller passes the controller role: clients use its services.
func Held(role string, now, found []Service) (held []Service, names []string) {
	waits := func(s Service) bool {
		i := slices.IndexFunc(found, func(f Service) bool { return f.Name == s.Name })
		if i < 0 {
			return s.Role == role && s.InTurn()
		}
		return s.Role == role && found[i].InTurn() && !s.Equal(found[i])
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
		// A new service may need something of a waiting one: its port, for example.
		if isNew && f.Role != role {
			held = append(held, f)
		}
	}
	return held, names
}

// HeldVariables returns the variables to use while services wait for a turn of their node because other CAs are in the file
// that they read at their start, and their names. All other values are used at once: a service that waits for the servers of
// etcd would not be ready meanwhile.
func HeldVariables(role string, now []Service, used, found Variables) (held Variables, names []string) {
	sameButTrust := found
	sameButTrust.EtcdTrust = used.EtcdTrust
	if used.EtcdTrust == "" || used.EtcdTrust == found.EtcdTrust || sameButTrust != used {
		return found, nil
	}
	for _, s := range now {
		if s.Role == role && s.InTurn() && s.Process != nil && usesCA(*s.Process) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return found, nil
	}
	return used, names
}

// Used reports whether one of these services may be in use: it runs, and was ready.
func (s State) Used(names []string) bool {
	return slices.ContainsFunc(s.Services, func(st Status) bool {
		return slices.Contains(names, st.Name) && st.wasReady && (st.Phase == Running || st.Phase == Stopping)
	})
}
