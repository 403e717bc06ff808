package judge

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// writes are writes of the soak.
func (s *story) writes(key string, acknowledged bool) *story {
	s.add(Event{Write: &key})
	if acknowledged {
		s.Acks = append(s.Acks, Ack{Key: key, Revision: s.revision()})
	}
	return s
}

// service adds a moment of a service, whose sidecar is the process 100.
func (s *story) service(node string, what Moment) *story {
	s.now += 10 * time.Millisecond
	s.Services = append(s.Services, ServiceMoment{Node: node, What: what, At: s.now, PID: 1, Sidecar: 100})
	return s
}

// served is an answer "ready" of the sidecar with the process 100.
func (s *story) served() *story {
	s.now += 10 * time.Millisecond
	s.probe("a", r1, true, "")
	s.Probes[len(s.Probes)-1].Sidecar = 100
	return s
}

// seats is a list of voters, each with the ID that is its place in the alphabet.
func (s *story) seats(voters string) *story {
	s.now += 10 * time.Millisecond
	list := Seats{Sent: s.now, Got: s.now}
	for _, v := range voters {
		list.All = append(list.All, Seat{ID: uint64(1 + v - 'a'), Node: string(v), Voter: true})
	}
	s.Seats = append(s.Seats, list)
	return s
}

// answers is a reading of a member.
func (s *story) answers(member, cluster uint64) *story {
	s.now += 10 * time.Millisecond
	s.Readings = append(s.Readings, Reading{Sent: s.now, Got: s.now, Revision: s.revision(), Member: member, Cluster: cluster})
	return s
}

// takes takes the role of a member from a, while other nodes are down.
func (s *story) takes(down ...string) *story {
	s.now += 10 * time.Millisecond
	s.Takes = append(s.Takes, Take{Node: "a", Sent: s.now, Got: s.now + time.Second})
	for _, node := range down {
		s.Downs = append(s.Downs, Down{node, Span{s.now - time.Second, s.now + 2*time.Second}})
	}
	return s.later(2 * time.Second)
}

// roles is the record of a without some of its roles.
func (s *story) roles(controller, member bool) *story {
	return s.add(Event{Record: &Record{Node: "a", Release: r1, M: r1, Controller: controller, Member: member}})
}

// calm lets time pass without faults, and then observes a.
func (s *story) calm(d time.Duration, sight Sight) *story {
	from := s.now
	s.later(d)
	sight.Node, sight.Sent, sight.Got = "a", s.now, s.now
	s.Sights = append(s.Sights, sight)
	s.Calms = append(s.Calms, Span{from, s.now})
	return s
}

// TestRoles: each rule about roles finds its violation, and accepts legal histories
// beside that.
func TestRoles(t *testing.T) {
	const enough = Agreeing + time.Second
	all, none := Sight{Listed: true, Votes: true, Runs: true, Serves: true}, Sight{}
	led := func(wait time.Duration) *story {
		return installed().roles(false, false).later(wait).status(protocol.Done, r1, r1, r1, 1, "a")
	}
	late := func() *story { // the answer was sent before the service was asked to stop
		s := installed().service("a", Ready).service("a", Stopping).served()
		s.Probes[len(s.Probes)-1].Sent = s.Services[len(s.Services)-1].At - time.Millisecond
		return s
	}
	checkAll(t, []safeguardTest{
		{"a gate with a service", installed().service("a", Started).service("a", Ready).served(), "", ""},
		{"a gate of another sidecar's service", installed().served(), ServicesFirst, "its service was not started"},
		{"a gate before its service is ready", installed().service("a", Started).served(), ServicesFirst, "not started"},
		{"a gate while its service stops", installed().service("a", Ready).service("a", Stopping).served(), ServicesFirst, "was stopping"},
		{"an answer from before the service stops", late(), "", ""},
		{"a gate after its service was started again", installed().service("a", Ready).service("a", Stopping).service("a", Ready).served(), "", ""},
		{"a gate over a service that fails later", installed().service("a", Ready).service("a", Started).served(), "", ""},

		{"a leader's last request", led(time.Second), "", ""},
		{"a leader without the role", led(time.Minute), LeadsByRole, "a wrote the status"},

		{"a voter of three leaves", installed().seats("abc").takes().seats("bc"), "", ""},
		{"a voter of five leaves while two are down", installed().seats("abcde").takes("b", "c").seats("bcde"), KeepsQuorum, "a lost the role"},
		{"a voter of five leaves while one is down", installed().seats("abcde").takes("b").seats("bcde"), "", ""},
		{"a voter of three leaves while one is down", installed().seats("abc").takes("b").seats("abc"), KeepsQuorum, "a lost the role"},
		{"the last voter leaves", installed().seats("a").takes().seats(""), KeepsQuorum, "a lost the role"},
		{"a voter leaves when another one has joined", installed().seats("ab").takes("b").seats("abcd"), "", ""},

		{"members answer", installed().seats("ab").answers(1, 7).answers(2, 7), "", ""},
		{"a removed member answers", installed().seats("ab").seats("b").answers(1, 7), OneCluster, "was removed before"},
		{"a member answers before it is removed", installed().seats("ab").answers(1, 7).seats("b").answers(2, 7), "", ""},
		{"a cluster of its own", installed().seats("ab").answers(2, 7).answers(9, 8), OneCluster, "and the cluster is 7"},

		{"a write stays", installed().writes("x", true).writes("y", false), "", ""},
		{"a write is lost", lost(installed().writes("x", true)), Kept, "the write of x"},
		{"a write is another one's", moved(installed().writes("x", true)), Kept, "the write of x"},

		{"a node with both roles", installed().roles(true, true).calm(enough, all), "", ""},
		{"a node without roles", installed().roles(false, false).calm(enough, none), "", ""},
		{"a node that does not become a member", installed().roles(true, true).calm(enough, Sight{Serves: true}), AsRecorded, "a has the role of a member"},
		{"a node that stays a learner", installed().roles(true, true).calm(enough, Sight{Listed: true, Runs: true, Serves: true}), AsRecorded, "votes false"},
		{"a node that stays a member", installed().roles(false, false).calm(enough, Sight{Listed: true}), AsRecorded, "a does not have the role of a member"},
		{"a process that goes on", installed().roles(false, false).calm(enough, Sight{Runs: true}), AsRecorded, "its process runs true"},
		{"a service that goes on", installed().roles(false, false).calm(enough, Sight{Serves: true}), AsRecorded, "its service runs true"},
		{"a gate that stays open", installed().roles(false, false).calm(enough, Sight{Open: true}), AsRecorded, "its gate is open true"},
		{"a service that does not start", installed().roles(true, false).calm(enough, none), AsRecorded, "its service is not ready"},
		{"a short time without faults", installed().roles(true, true).calm(time.Second, none), "", ""},
		{"a role that has just changed", installed().roles(true, true).later(time.Minute).roles(false, false).calm(time.Second, all), "", ""},
	})
}

// lost is a history without its last event, and so without a record of that revision.
func lost(s *story) *story {
	s.Events = s.Events[:len(s.Events)-1]
	return s
}

// moved is a history whose last event is at another revision.
func moved(s *story) *story {
	s.Acks[len(s.Acks)-1].Revision++
	return s
}
