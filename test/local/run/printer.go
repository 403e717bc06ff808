package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/local/terminal"
)

// printer shows the user the progress.
type printer struct {
	out    io.Writer
	paint  terminal.Painter
	assets string
	bundle chosen    // that the node starts with
	local  bool      // etcd and kube-apiserver are started here, too
	begin  time.Time // of the part that is being started
	open   bool      // the line about it is not finished
}

func newPrinter(out io.Writer, assets string) *printer {
	return &printer{out: out, paint: terminal.NewPainter(out), assets: assets}
}

func (p *printer) print(format string, args ...any) {
	// If standard output is closed, there is nowhere to report it.
	_, _ = fmt.Fprintf(p.out, format, args...)
}

func (p *printer) intro(what string) {
	p.print("%s: %s\n", p.paint.Paint(terminal.Bold, "Lockstep"), what)
	if b := p.bundle; b.Bundle != nil {
		p.print("bundle %s\n", b)
	}
	p.print("\n")
}

// introLocal says that one node is started here, and which variables it does not use.
func (p *printer) introLocal() {
	p.local = true
	p.intro("one node on this machine, until Ctrl-C")
	for _, pair := range [][2]string{{"KUBECONFIG", "ETCD_SERVERS"}, {"ETCD_SERVERS", "KUBECONFIG"}} {
		if os.Getenv(pair[0]) != "" {
			p.note(pair[0] + " is set but not used; set " + pair[1] + " too, to start a sidecar for that cluster")
		}
	}
}

func (p *printer) note(text string) {
	p.print("  %s\n\n", p.paint.Paint(terminal.Dim, text))
}

func (p *printer) starting(part string) {
	p.begin = time.Now()
	p.open = true
	p.print("  starting %-16s", part)
}

func (p *printer) started(url string) {
	p.open = false
	p.print("%-28s %4.1f s\n", url, time.Since(p.begin).Seconds())
}

func (p *printer) waiting(reason, message string) {
	p.print("  waiting  %s\n", p.paint.Paint(terminal.Dim, reason+": "+message))
}

// stopping also finishes the line of a part that did not start.
func (p *printer) stopping(slow bool) {
	if p.open {
		p.print("failed\n")
	}
	what := "the sidecar"
	if p.local {
		what = "everything"
	}
	if slow {
		what += "; a kube-apiserver whose etcd has no majority takes up to 30 s"
	}
	p.print("\n  stopping %s\n", what)
}

// othersRun says that nodes which joined still run: they need their data.
func (p *printer) othersRun(n node, others []string, dir string) {
	verb := "run"
	if len(others) == 1 {
		verb = "runs"
	}
	p.print("  this node has stopped; %s still %s, so the data of all nodes stays in %s\n", strings.Join(others, " and "), verb, dir)
	p.print("  to start this node again: . %s && sidecar run\n  to remove everything, when all have stopped: rm -r %s\n", n.own.settings, dir)
}

// stopped says that all has ended, what stays, and how it is removed.
func (p *printer) stopped(n node, dir string) {
	switch {
	case p.local:
		p.print("  everything has stopped, and %s is removed: nothing is left\n", dir)
	case n.dataDir != "":
		p.print("  the sidecar has stopped; the objects stay in the cluster; its etcd stays in %s, and the next run continues with it\n", n.dataDir)
	default:
		p.print("  the sidecar has stopped; the objects stay in the cluster, and so does the record of node %s, until you type:\n    %s node remove %s --confirm-stopped --etcd-servers=%s\n",
			n.cfg.NodeID, p.sidecar(), n.cfg.NodeID, strings.Join(n.etcdServers, ","))
	}
}

// rejected says why the node does not start with what the user typed.
func (p *printer) rejected(typed string, err error) {
	p.print("  %s\n", err)
	if _, missing := os.Stat(typed); missing != nil {
		p.print("  Here you type the directory of a bundle. Type commands in another terminal.\n")
	}
}

// stoppingFor is said before the node starts again with another bundle.
func (p *printer) stoppingFor(b chosen) {
	p.print("\n  stopping this node, to start it again with %s\n\n", b)
}

// ready prints the addresses of the node, and the first time commands to try.
func (p *printer) ready(n node, first bool) {
	if !first {
		p.print("  %s\n", p.paint.Paint(terminal.Green, "ready"))
		return
	}
	url := n.sidecar.URL()
	sidecar := p.sidecar()
	p.print("  %s\n\n", p.paint.Paint(terminal.Green, "ready"))
	p.print("  readiness  %s/readyz\n", url)
	p.print("  status     %s/status\n", url)
	p.print("  logs       %s\n\n", n.logs)

	p.print("%s, in another terminal\n\n", p.paint.Paint(terminal.Bold, "Try next"))
	p.try("the readiness, as a kubelet probes it", "curl -i "+url+"/readyz")
	p.try("who leads, which nodes are ready, what was applied", sidecar+" status --server "+url)
	p.try("the same, as it changes", sidecar+" status -w --server "+url)
	if n.api == nil && n.services == "" {
		p.anotherBundle()
		p.print("Ctrl-C stops the sidecar.\n")
		return
	}
	if kinds := p.bundle.resources(); kinds != "" {
		p.try("the objects of the bundle: delete or edit one, and Lockstep restores it at once; Namespaces are not listed: no controller here finishes their deletion",
			"export KUBECONFIG="+n.kubeconfig,
			"kubectl get -A -l applyset.kubernetes.io/part-of "+kinds)
	}
	if n.services != "" {
		p.tryCommand(n)
		return
	}
	p.try("three nodes and two rolling upgrades", "make demo")
	p.anotherBundle()
	p.print("Ctrl-C stops everything and removes its data.\n")
}

// tryCommand prints commands to try with a node that one command runs: how its roles move,
// and how two more nodes join.
func (p *printer) tryCommand(n node) {
	sidecar, flag := p.sidecar(), " --data-dir="+n.dataDir
	p.try("take a role from the node: its gate closes, then its kube-apiserver stops",
		sidecar+" node set-roles local --remove kubernetes_controller --force"+flag)
	p.try("give it back: its kube-apiserver starts, then its gate opens",
		sidecar+" node set-roles local --add kubernetes_controller"+flag)
	for _, more := range n.more {
		p.try("let node "+more.id+" join, in a terminal of its own: these two lines, and then the command that the second one prints",
			". "+more.settings, sidecar+" cluster token create --node "+more.id+flag)
	}
	p.try("run a service of your own: put a file in this directory, which is read again at each change (docs/roles.md)", "ls "+n.services)
	p.try("the settings of this node as variables: with them, sidecar and kubectl need no flags",
		". "+n.own.settings+" && sidecar status")
	p.try("the members of etcd", sidecar+" cluster members"+flag)
	p.try("three nodes and two rolling upgrades, all by itself", "make demo")
	p.anotherBundle()
	p.print("Ctrl-C stops this node. It removes the data of all three, unless another one still runs.\n")
}

func (p *printer) anotherBundle() {
	p.print("Upgrade this node: type the directory of another bundle here. It stops, and starts again with that bundle.\n")
}

func (p *printer) try(what string, commands ...string) {
	p.print("  %s\n    %s\n\n", p.paint.Paint(terminal.Dim, "# "+what), strings.Join(commands, "\n    "))
}

// sidecar returns the path of the binary, short if it is the usual one.
func (p *printer) sidecar() string {
	if filepath.Base(p.assets) == "bin" {
		return "bin/sidecar"
	}
	return filepath.Join(p.assets, "sidecar")
}
