package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
	"github.com/lockstep-dev/lockstep/test/local/terminal"
)

const (
	lineWidth   = 84
	timeWidth   = 9
	nodeWidth   = 16
	leaderWidth = 7
	legendWidth = 15
)

// printer writes the timeline. Events come from a goroutine of their own.
type printer struct {
	paint terminal.Painter

	mu     sync.Mutex // mu guards the fields below
	out    io.Writer
	view   string // the newest view that was printed since the last heading
	claims int    // how many were printed
}

func newPrinter(out io.Writer) *printer {
	return &printer{out: out, paint: terminal.NewPainter(out)}
}

func (p *printer) line(text string) {
	// If standard output is closed, there is nowhere to report it.
	_, _ = fmt.Fprintln(p.out, strings.TrimRight(text, " "))
}

// intro explains the demo. addresses are the nodes' addresses; none: the nodes share one etcd.
// versions are the versions of the kube-apiservers by release.
func (p *printer) intro(addresses []string, versions map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(p.paint.Paint(terminal.Bold, "Lockstep demo: two rolling upgrades of a control plane, and one back"))
	p.line("")
	if len(addresses) > 0 {
		p.line("Three nodes run on this machine. One command starts each of them: a sidecar, which runs a")
		p.line("member of etcd and a kube-apiserver. A release is a bundle of objects and a kube-apiserver.")
		p.line("To upgrade a node, the demo stops its sidecar, and starts it with the next release.")
		p.line("")
		for i, address := range addresses {
			p.line(fmt.Sprintf("  %-*s%s", legendWidth, fmt.Sprintf("node %c", 'a'+i), address))
		}
		for _, release := range slices.Sorted(maps.Keys(versions)) {
			p.line(fmt.Sprintf("  %-*skube-apiserver %s", legendWidth, "release "+release, versions[release]))
		}
	} else {
		p.line("Three nodes run on this machine and share one etcd. Each is a kube-apiserver and a sidecar beside it.")
		p.line("To upgrade a node, the demo stops both, and starts both with the bundle of the next release.")
	}
	p.line("Four clients read from the nodes whose gates are open, all the time.")
	p.line("")
	for _, sign := range []struct {
		cell
		meaning string
	}{
		{cell{"●", terminal.Green}, "ready, as a kubelet probes it"},
		{cell{"○", terminal.Yellow}, "not ready"},
		{cell{"-", terminal.Dim}, "stopped"},
		{cell{"blocks", terminal.Red}, "the leader waits until this node is upgraded"},
		{cell{"leads", terminal.Plain}, "the node that applies the objects"},
		{cell{"status", terminal.Plain}, "the key in etcd that all gates read; min is the lowest release that may serve"},
		{cell{"+  ~  -", terminal.Plain}, "an object is created, changed, deleted"},
	} {
		p.line("  " + p.paint.Pad(sign.style, sign.text, legendWidth) + sign.meaning)
	}
}

func (p *printer) step(s upgrade.Step) {
	p.heading(s.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line("   " + s.Why)
	p.line("")
	p.line(p.paint.Paint(terminal.Dim, columns(p.paint, "time",
		[upgrade.NodeCount]cell{{text: "a"}, {text: "b"}, {text: "c"}}, "leads", "status")))
}

func (p *printer) heading(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view = ""
	rule := strings.Repeat("-", max(2, lineWidth-4-utf8.RuneCountInString(text)))
	p.line("")
	p.line("-- " + p.paint.Paint(terminal.Bold, text) + " " + p.paint.Paint(terminal.Dim, rule))
}

// event prints one line of the timeline.
func (p *printer) event(e upgrade.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := fmt.Sprintf("%.1fs", e.At.Seconds())
	if e.Text != "" {
		p.line(clock(at) + p.paint.Paint(terminal.Dim, e.Text))
		return
	}
	var cells [upgrade.NodeCount]cell
	for i, n := range e.View.Nodes {
		cells[i] = nodeCell(n)
	}
	leader, status := cmp.Or(e.View.Leader, "-"), cmp.Or(e.View.Status, "-")
	// A view can differ only in fields that the timeline does not show.
	if view := columns(p.paint, "", cells, leader, status); view != p.view {
		p.view = view
		p.line(columns(p.paint, at, cells, leader, status))
	}
}

// cell is a text in its style.
type cell struct {
	text  string
	style terminal.Style
}

func nodeCell(n upgrade.NodeView) cell {
	switch {
	case n.Release == "" && n.Blocks: // its record blocks until it starts again
		return cell{"-       blocks", terminal.Red}
	case n.Release == "":
		return cell{"-", terminal.Dim}
	case n.Blocks && n.Ready:
		return cell{"● " + n.Release + " blocks", terminal.Red}
	case n.Ready:
		return cell{"● " + n.Release, terminal.Green}
	case n.Blocks:
		return cell{"○ " + n.Release + " blocks", terminal.Red}
	}
	return cell{"○ " + n.Release, terminal.Yellow}
}

func clock(at string) string { return fmt.Sprintf("%*s   ", timeWidth, at) }

func columns(paint terminal.Painter, at string, nodes [upgrade.NodeCount]cell, leader, status string) string {
	var out strings.Builder
	out.WriteString(clock(at))
	for _, n := range nodes {
		out.WriteString(paint.Pad(n.style, n.text, nodeWidth))
	}
	out.WriteString(paint.Pad(terminal.Plain, leader, leaderWidth) + status)
	return out.String()
}

// claimed prints each claim, with its number, and why it is false.
func (p *printer) claimed(claims []upgrade.Claim, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line("")
	for i, claim := range claims {
		p.claims++
		sign := cell{"✓", terminal.Green}
		if errs[i] != nil {
			sign = cell{"✗", terminal.Red}
		}
		p.line(fmt.Sprintf("   %s %2d  %s", p.paint.Paint(sign.style, sign.text), p.claims, claim.Text))
		if errs[i] != nil {
			p.line("         " + strings.ReplaceAll(errs[i].Error(), "\n", "\n         "))
		}
	}
}

func (p *printer) summary(took time.Duration, writes, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line("")
	p.line(fmt.Sprintf("All %d claims are true. %d steps, %d writes of objects, %d requests of clients, 0 failed, %.0f s.",
		p.claims, len(upgrade.Steps()), writes, requests, took.Seconds()))
}
