package e2e_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/protocol"
)

// showsEvents requires that the leader shows the changes of another node as Events: 100 flaps are one, with a series.
func (b *broken) showsEvents() {
	b.Helper()
	upgrade, err := json.Marshal(history.Entry{Time: time.Now(), Until: time.Now(), Kind: history.Upgrade, Reason: history.Done, Message: "it ended", Count: 1})
	b.must(err)
	b.put("history/upgrade//t1-Begun", string(upgrade))
	flaps := history.Entry{Time: time.Now(), Kind: history.Gate, Node: "cp-2", Reason: protocol.NotRegistered, Message: "its lease has ended"}
	list := []string{"get", "events.events.k8s.io", "-n", "default", "-o", `jsonpath={range .items[?(@.regarding.name=="cp-2")]}{.reason}={.series.count} {end}`}
	for _, count := range []int{1, 100} {
		flaps.Count, flaps.Until = count, time.Now()
		value, err := json.Marshal(flaps)
		b.must(err)
		b.put("history/gate/cp-2/t1-NotRegistered", string(value))
		other := protocol.Node{ID: "cp-2", Digest: fmt.Sprint("changed ", count)} // no controller: no node waits for it
		b.put("nodes/cp-2", string(fleet.Encode(other)))
		want := "NotRegistered= "
		if count > 1 {
			want = "NotRegistered=100 "
		}
		b.awaitOutput("an Event of what happened", want, list...)
	}
	b.awaitOutput("an Event of the new node", "Registered=", list...)
	b.awaitOutput("an Event of the fleet", "Done ConfigMap", "get", "events.events.k8s.io", "-n", "kube-system",
		"-o", `jsonpath={range .items[*]}{.reason} {.regarding.kind} {end}`)
	_, err = b.etcd().Delete(b.Context(), "/lockstep/nodes/cp-2")
	b.must(err)
}
