package table

import (
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// rolesNote names the source of the roles if the cluster did not confirm them.
func (t Status) rolesNote(r report.Roles) string {
	switch r.Source {
	case "disk":
		return " (" + strings.Join(r.Local, ", ") + ": as this node has them on disk; its record in etcd was not read, or does not exist)"
	case "":
		return ", which are not known yet"
	}
	return ""
}

func (t Status) services(r report.Status) [][]string {
	rows := [][]string{{"NAME", "STATE", "READY", "FOR", "RESTARTS"}}
	if t.Wide {
		rows[0] = append(rows[0], "ROLE", "DRIVER", "LAST EXIT")
	}
	for _, s := range r.Services {
		ready := "yes"
		switch {
		case s.Ready:
		case s.Required || s.File == "": // without a file: the answer of an older sidecar
			ready = "no"
		default:
			ready = "no, not required"
		}
		cells := []string{s.Name, string(s.Phase), ready, t.lasting(s.Since), strconv.Itoa(s.Restarts)}
		if t.Wide {
			cells = append(cells, s.Role, s.Driver, terminal.OrDash(s.LastExit))
		}
		rows = append(rows, cells)
	}
	return headed(rows)
}

// shownLines is how many of a service's last lines of output the table shows.
const shownLines = 5

// notReady explains why services are not ready, with the last lines of services that ended.
func (t Status) notReady(r report.Status) [][]string {
	var rows [][]string
	for _, s := range r.Services {
		if s.Ready {
			continue
		}
		var lines []string
		if s.Problem != "" {
			lines = append(lines, s.Problem)
		}
		if s.LastExit != "" {
			lines = append(lines, "it ended: "+s.LastExit)
			for _, line := range s.LastLines[max(0, len(s.LastLines)-shownLines):] {
				lines = append(lines, "| "+line)
			}
		}
		if s.File != "" && len(lines) > 0 { // a service that its role stopped has no problem
			text := "its file: " + s.File
			if !s.Changed.IsZero() {
				text += ", changed " + t.ago(s.Changed)
			}
			lines = append(lines, text)
		}
		rows = append(rows, titled(s.Name, lines)...)
	}
	return rows
}
