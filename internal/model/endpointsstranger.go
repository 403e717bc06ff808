package model

// stranger changes the Service as a client does that is no sidecar, claims to be a
// kube-apiserver, and sets the ID of another store.
func (s *endpointsState) stranger(m endpointsMove) string {
	with := s.object
	with.foreign = true
	switch m {
	case endpointsHijack:
		with.own, with.set = false, 1
	case endpointsForge:
	default:
		return ""
	}
	if with == s.object {
		return ""
	}
	s.strangers--
	s.replace(with)
	return "has a client that is no sidecar: it writes the ID of another store into the Service, which has now " + with.set.String()
}
