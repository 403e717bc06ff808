package table

import (
	"cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// VersionColumns are the columns with the versions of the kube-apiservers and the digests of the services. A table
// shows each of them if it is wide, or if nodes differ.
type VersionColumns struct{ apiserver, services bool }

// VersionColumnsOf returns the columns that a table of these nodes shows.
func VersionColumnsOf(nodes []report.Record, wide bool) VersionColumns {
	return VersionColumns{
		apiserver: wide || differ(nodes, func(n report.Record) string { return n.ApiserverVersion }),
		services:  wide || differ(nodes, func(n report.Record) string { return n.ServicesDigest }),
	}
}

// records are the records of a fleet.
func records(nodes []report.FleetNode) []report.Record {
	out := make([]report.Record, len(nodes))
	for i, n := range nodes {
		out[i] = n.Record
	}
	return out
}

// Head returns the titles of the columns.
func (c VersionColumns) Head() []string { return c.chosen("APISERVER", "SERVICES") }

// Cells returns the cells of a node.
func (c VersionColumns) Cells(n report.Record) []string {
	return c.chosen(terminal.OrDash(n.ApiserverVersion), terminal.OrDash(terminal.ShortDigest(n.ServicesDigest)))
}

func (c VersionColumns) chosen(apiserver, services string) (out []string) {
	if c.apiserver {
		out = append(out, apiserver)
	}
	if c.services {
		out = append(out, services)
	}
	return out
}

// differ reports whether the values of two nodes differ. An empty one is unknown.
func differ(nodes []report.Record, valueOf func(report.Record) string) bool {
	first := ""
	for _, n := range nodes {
		v := valueOf(n)
		if v != "" && first != "" && v != first {
			return true
		}
		first = cmp.Or(first, v)
	}
	return false
}
