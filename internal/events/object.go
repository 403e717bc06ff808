package events

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// controller is the reporting controller of all Events.
const controller = "lockstep.dev/sidecar"

// object is our subset of an Event of events.k8s.io/v1.
type object struct {
	APIVersion          string    `json:"apiVersion"`
	Kind                string    `json:"kind"`
	Metadata            metadata  `json:"metadata"`
	EventTime           string    `json:"eventTime"`
	Series              *series   `json:"series,omitempty"`
	ReportingController string    `json:"reportingController"`
	ReportingInstance   string    `json:"reportingInstance"`
	Action              string    `json:"action"`
	Reason              string    `json:"reason"`
	Regarding           regarding `json:"regarding"`
	Note                string    `json:"note"`
	Type                string    `json:"type"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type series struct {
	Count            int    `json:"count"`
	LastObservedTime string `json:"lastObservedTime"`
}

// seriesPatch continues a series.
type seriesPatch struct {
	Series *series `json:"series"`
}

type regarding struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// nameOf names the Event of an entry. The end of an upgrade is another Event than its beginning: only the series
// of an Event can change.
func nameOf(e history.Entry) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", e.ID, e.Time.UnixMilli(), e.Reason))
	return "lockstep." + hex.EncodeToString(sum[:10])
}

// eventOf returns the Event of an entry. An entry about a node regards the Node of that name, since kubectl
// describe node searches for it; any other entry regards the ConfigMap lockstep.
func eventOf(e history.Entry, reporter protocol.NodeID, now time.Time) object {
	out := object{
		APIVersion: "events.k8s.io/v1", Kind: "Event", Metadata: metadata{nameOf(e), "kube-system"},
		EventTime: microTime(e.Time), ReportingController: controller, ReportingInstance: string(reporter),
		Action: string(e.Kind), Reason: cmp.Or(string(e.Reason), string(e.Kind)), Note: e.Note(), Type: typeOf(e),
		Regarding: regarding{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "lockstep"},
	}
	if e.Node != "" {
		out.Metadata.Namespace = "default" // where Events about objects without a namespace belong
		out.Regarding = regarding{APIVersion: "v1", Kind: "Node", Name: string(e.Node), UID: string(e.Node)}
	}
	if e.Count > 1 {
		out.Series = &series{e.Count, microTime(e.End(now))}
	}
	return out
}

// microTime formats a time with microseconds.
func microTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

// typeOf returns Warning for entries that need attention.
func typeOf(e history.Entry) string {
	const normal, warning = "Normal", "Warning"
	switch e.Kind {
	case history.Gate:
		if e.Reason == protocol.Cordoned || e.Reason == protocol.ShuttingDown {
			return normal // people or the sidecar wanted it
		}
		return warning
	case history.Node, history.Turn:
		if e.Reason == protocol.NoPresence || e.Reason == warn.TurnFailed {
			return warning
		}
		return normal
	case history.APIServer, history.Etcd, history.Service, history.Warning, history.Object, history.Override, history.Blocked,
		history.Store:
		return warning
	case history.Sidecar, history.Bundle, history.Cordon, history.Leader, history.Status, history.Upgrade, history.Rollback,
		history.Member:
	}
	return normal
}
