package fleet

import (
	"strings"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// decodeTurns returns the turns of a listing of their prefix. A turn that cannot be decoded is
// held all the same: its node may be out of service.
func decodeTurns(keys keyspace.Keys, l etcd.Listing) protocol.Turns {
	var out protocol.Turns
	for _, kv := range l.KVs {
		if id, held := strings.CutPrefix(kv.Key, keys.TurnsHeld()); held {
			out.Held = append(out.Held, decodeTurn(protocol.NodeID(id), kv))
		} else if id, waits := strings.CutPrefix(kv.Key, keys.TurnsWaiting()); waits {
			out.Waiting = append(out.Waiting, decodeTurnRequest(protocol.NodeID(id), kv))
		} else if id, runs := strings.CutPrefix(kv.Key, keys.TurnsRunning()); runs {
			out.Running = append(out.Running, protocol.NodeID(id))
		} else if kv.Key == keys.TurnLimit() {
			out.Limit = decodeTurnLimit(kv.Value)
		}
	}
	return out
}

// turnWorks are the words for how far the work of a turn is.
var turnWorks = map[protocol.TurnWork]string{
	protocol.TurnWorkUnderWay: "under way", protocol.TurnWorkFailed: "failed", protocol.TurnWorkDone: "done",
	protocol.TurnWorkInterrupted: "interrupted",
}

func decodeTurn(id protocol.NodeID, kv *etcd.KV) protocol.Turn {
	out := protocol.Turn{Node: id, Revision: kv.ModRevision, Work: protocol.TurnWorkUnderWay}
	var m lockstepv1.Turn
	if !unmarshal(kv.Value, &m) || m.GetNode() != string(id) {
		return out
	}
	out.Since, out.Until = lockstepv1.ToTime(m.GetSince()), lockstepv1.ToTime(m.GetUntil())
	out.Message, out.By, out.Command = shortened(m.GetMessage()), shortened(m.GetBy()), shortened(m.GetCommand())
	out.Problem = shortened(m.GetProblem())
	out.Kind, out.BootID = protocol.TurnKind(shortened(m.GetKind())), shortened(m.GetBootId())
	for work, text := range turnWorks {
		if text == m.GetWork() {
			out.Work = work
		}
	}
	return out
}

func encodeTurn(t protocol.Turn) []byte {
	return lockstepv1.Marshal(&lockstepv1.Turn{
		Node: string(t.Node), Since: lockstepv1.FromTime(t.Since), Until: lockstepv1.FromTime(t.Until),
		Message: shortened(t.Message), By: shortened(t.By),
		Kind: string(t.Kind), Command: shortened(t.Command), Work: turnWorks[t.Work], BootId: t.BootID,
		Problem: shortened(t.Problem),
	})
}

func decodeTurnRequest(id protocol.NodeID, kv *etcd.KV) protocol.TurnRequest {
	out := protocol.TurnRequest{Node: id, Created: kv.CreateRevision}
	var m lockstepv1.TurnRequest
	if unmarshal(kv.Value, &m) {
		out.Since, out.Message, out.By = lockstepv1.ToTime(m.GetSince()), shortened(m.GetMessage()), shortened(m.GetBy())
	}
	return out
}

func encodeTurnRequest(r protocol.TurnRequest) []byte {
	return lockstepv1.Marshal(&lockstepv1.TurnRequest{
		Node: string(r.Node), Since: lockstepv1.FromTime(r.Since), Message: shortened(r.Message), By: shortened(r.By),
	})
}

func decodeTurnLimit(value []byte) int {
	var m lockstepv1.TurnLimit
	if !unmarshal(value, &m) {
		return 0
	}
	return int(min(max(m.GetTurns(), 0), protocol.MaxTurns))
}

func encodeTurnLimit(turns int) []byte {
	return lockstepv1.Marshal(&lockstepv1.TurnLimit{Turns: int32(turns)})
}
