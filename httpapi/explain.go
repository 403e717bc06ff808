package httpapi

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// etcdCommand finds the commands of this program that need flags for etcd, in the messages of package protocol.
var etcdCommand = regexp.MustCompile("\\bsidecar (?:node (?:remove [^\\s;,)`]+ --confirm-stopped|set-roles [^\\s;,)`]+ --(?:add|remove) [a-z_]+|list)|" +
	"bundle replace (?:--cancel|--from [a-z0-9.-]+ --to [a-z0-9.-]*[a-z0-9])|" +
	"history --node [^\\s;,)`]+|rollback end|turn end [^\\s;,)`]+(?: --force)?|(?:un)?cordon [^\\s;,)`]+|cluster (?:snapshot lockstep\\.snapshot|restore lockstep\\.snapshot --confirm-stopped|remove [^\\s;,)`]+|token create(?: --node [^\\s;,)`]+)?|members|defrag)|store (?:adopt(?: --id [0-9a-f]+)?|show))")

// pasteable completes the commands in a message with the flags of this sidecar's
// etcd.
func (s Snapshot) pasteable(message string) string { return Pasteable(message, s.EtcdFlags) }

// Pasteable completes the commands in a message with flags for etcd, which begin with a space.
func Pasteable(message, etcdFlags string) string {
	if etcdFlags == "" || !strings.Contains(message, "sidecar ") {
		return message
	}
	var out strings.Builder
	at := 0
	for _, found := range etcdCommand.FindAllStringIndex(message, -1) {
		out.WriteString(message[at:found[1]])
		if at = found[1]; !strings.HasPrefix(message[at:], etcdFlags) { // it may be complete already
			out.WriteString(etcdFlags)
		}
	}
	return out.String() + message[at:]
}

// verdict returns the snapshot's verdict. Its message also explains what the gate waits for, as far as this
// sidecar knows; the zero verdict means Starting.
func verdict(s Snapshot) protocol.Verdict {
	v := s.Gate.Verdict
	if !v.Ready && v.Reason == "" {
		v = protocol.Verdict{Reason: protocol.Starting, Message: "the sidecar is starting"}
	}
	switch v.Reason {
	case protocol.Starting, protocol.NotRegistered:
		if s.Etcd.Problem != "" {
			v.Message += ": " + s.Etcd.Problem
		}
	case protocol.Fenced:
		if s.Etcd.Connected {
			v.Message = strings.Replace(v.Message, protocol.RegistersAgain, "etcd answers again: "+registersNext(s), 1)
		}
	case protocol.ReleaseTooOld:
		if back := s.Fleet.Rollback; back.On() && back.To == s.Local.Version.Release {
			what, _, _ := strings.Cut(v.Message, protocol.UpgradeOrRollBack)
			v.Message = what + fmt.Sprintf("the rollback to %s is under way, and its leader restores the objects of that release", back.To)
		}
	case protocol.StatusMissing, protocol.StatusCorrupt, protocol.ReconcilerTooOld:
		v.Message += cause(s)
	default:
	}
	v.Message = s.pasteable(v.Message)
	if v.Reason == protocol.Overridden {
		v.Message = strings.ReplaceAll(v.Message, endOverride, endOverride+s.OverrideFlag)
	}
	return v
}

// endOverride is the command in the messages of package protocol.
const endOverride = "sidecar override end"

// registersNext names the obstacles of a node that lost its registration, while etcd answers.
func registersNext(s Snapshot) string {
	var waits []string
	for _, service := range s.Services {
		if !service.Ready {
			waits = append(waits, service.Name)
		}
	}
	if len(waits) > 0 {
		return "it registers when its services are ready: " + strings.Join(waits, ", ") + " (see SERVICES)"
	}
	return "it registers in a moment"
}

// cause names the leader's present work, or the reason why no node leads.
func cause(s Snapshot) string {
	if s.Election.State == protocol.Leading {
		return "; this node leads: " + ownWork(s)
	}
	for _, r := range s.Fleet.Records {
		if r.ID != s.Local.ID && r.Alive && r.Presence.Election == protocol.Leading {
			return fmt.Sprintf("; %s leads%s", r.ID, firstProblem(r))
		}
	}
	if !s.Etcd.Connected {
		return ""
	}
	if s.Election.State == protocol.Withdrawn {
		return "; no node leads: this node has withdrawn: " + s.Election.Eligibility.Message
	}
	for _, r := range s.Fleet.Records {
		if r.Alive && r.Presence.Election == protocol.Withdrawn {
			return fmt.Sprintf("; no node leads: %s has withdrawn%s", r.ID, firstProblem(r))
		}
	}
	return "; no node leads at the moment"
}

// ownWork names the present work of this leader, and its obstacles.
func ownWork(s Snapshot) string {
	step, r := s.Election.Step, s.Reconcile
	switch {
	case len(step.Blockers) > 0:
		return "it waits for " + protocol.BlockerNames(step.Blockers) + " (see BLOCKERS)"
	case r.TotalFailures > 0:
		return fmt.Sprintf("%d of %d objects failed in its last pass (see FAILURES)", r.TotalFailures, max(r.Objects.Desired, r.TotalFailures))
	case r.LastError != "":
		return "its last pass ended with: " + r.LastError
	}
	return step.Message
}

// firstProblem is the first problem that a node reports.
func firstProblem(r *protocol.Record) string {
	if len(r.Presence.Warnings) == 0 {
		return ""
	}
	w := r.Presence.Warnings[0]
	if w.Subject != "" {
		return fmt.Sprintf(": %s: %s", w.Subject, w.Message)
	}
	return ": " + w.Message
}
