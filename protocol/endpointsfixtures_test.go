package protocol

func fleetOf(revision int64, records ...*Record) Fleet {
	return Fleet{Revision: revision, Records: records}
}

func (r Record) onPort(port int) *Record { r.Presence.Endpoint.Port = port; return &r }
