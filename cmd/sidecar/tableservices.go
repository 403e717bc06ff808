package main

import (
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/httpapi"
)

// rolesNote says where the roles are from if the cluster has not confirmed them.
func (t table) rolesNote(r httpapi.RolesReport) string {
	switch r.Source {
	case "disk":
		return " (" + strings.Join(r.Local, ", ") + ": as this node has them on disk; its record in etcd was not read, or does not exist)"
	case "":
		return ", which are not known yet"
	}
	return ""
}

func (t table) services(r httpapi.Report) [][]string {
	rows := [][]string{{"NAME", "STATE", "READY", "FOR", "RESTARTS", "LAST EXIT"}}
	if t.wide {
		rows[0] = append(rows[0], "ROLE", "DRIVER")
	}
	for _, s := range r.Services {
		ready := "yes"
		if !s.Ready {
			ready = "no"
			if s.Problem != "" {
				ready += ": " + s.Problem
			}
		}
		cells := []string{s.Name, s.State, ready, t.lasting(s.Since), strconv.Itoa(s.Restarts), orDash(s.LastExit)}
		if t.wide {
			cells = append(cells, s.Role, s.Driver)
		}
		rows = append(rows, cells)
	}
	return headed(rows)
}

// shownLines is how many of a service's last lines of output the table has.
const shownLines = 5

// output returns the last lines of the services that ended and are not ready again.
func (t table) output(r httpapi.Report) [][]string {
	var rows [][]string
	for _, s := range r.Services {
		if s.Ready || s.LastExit == "" {
			continue
		}
		for _, line := range s.LastLines[max(0, len(s.LastLines)-shownLines):] {
			rows = append(rows, []string{s.Name, line})
		}
	}
	return rows
}
