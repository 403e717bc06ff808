package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
	"github.com/lockstep-dev/lockstep/test/local/terminal"
)

const (
	lineWidth   = 84
	claimWidth  = 110
	timeWidth   = 9
	nodeWidth   = 16
	leaderWidth = 7
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

// intro says what is shown. addresses are those of the nodes; none: they share one etcd.
func (p *printer) intro(addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(p.paint.Paint(terminal.Bold, "Lockstep demo: two rolling upgrades of a control plane"))
	if len(addresses) > 0 {
		p.line("Three nodes run on this machine, at " + strings.Join(addresses, ", ") + ". Each is a real kube-apiserver and a")
		p.line("sidecar. The kube-apiservers share an etcd that is not Lockstep's; the sidecars form one of their own.")
	} else {
		p.line("Three nodes run on this machine and share one etcd. Each is a real kube-apiserver and a sidecar.")
	}
	p.line("")
	p.line(fmt.Sprintf("  %s ready, as a kubelet probes it   %s not ready   %s stopped",
		p.paint.Paint(terminal.Green, "●"), p.paint.Paint(terminal.Yellow, "○"), "-"))
	p.line("  + an object is created   ~ changed   - deleted")
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
	// A view can differ only in what the timeline does not show.
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

// claimed prints which claims are true: as many in a line as fit. What is false has
// lines of its own.
func (p *printer) claimed(claims []upgrade.Claim, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims += len(claims)
	const gap = "   "
	line, width := "", 0
	for i, claim := range claims {
		long := utf8.RuneCountInString(gap + "✓ " + claim.Text)
		if errs[i] != nil || width > 0 && width+long > claimWidth {
			p.unlessEmpty(line)
			line, width = "", 0
		}
		if errs[i] != nil {
			p.line(gap + p.paint.Paint(terminal.Red, "✗ "+claim.Text))
			p.line("       " + strings.ReplaceAll(errs[i].Error(), "\n", "\n       "))
			continue
		}
		line += gap + p.paint.Paint(terminal.Green, "✓") + " " + claim.Text
		width += long
	}
	p.unlessEmpty(line)
}

func (p *printer) unlessEmpty(line string) {
	if line != "" {
		p.line(line)
	}
}

func (p *printer) summary(took time.Duration, writes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line("")
	p.line(fmt.Sprintf("All %d claims are true. %d steps, %d writes of objects, %.0f s.",
		p.claims, len(upgrade.Steps()), writes, took.Seconds()))
}
