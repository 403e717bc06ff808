package quorum

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/prometheus"
	"github.com/lockstep-dev/lockstep/test/slowdisk"
	"github.com/lockstep-dev/lockstep/test/smalldisk"
)

var rewrite = flag.Bool("rewrite", false, "write what /status shows in each situation to cmd/sidecar/testdata/situations")

// situations are three nodes with an etcd of their own, on which faults are caused one after
// another.
type situations struct {
	*plane
	name    string // of the situation
	nodes   []*Node
	a, b, c *Node
	flags   map[*Node][]string     // of a start
	disk    string                 // of c
	printed map[string]bool        // commands in tables, without flags: whether each was typed
	prom    *prometheus.Prometheus // nil: this machine has none
	alone   *Node
	caused  []string // alerts
}

// TestSituations causes broken situations of an etcd that the sidecars run. In each,
// `sidecar status` on every node whose sidecar runs must say what is wrong, where, and what to
// do; and on a node whose sidecar does not run, the last line of the log.
func TestSituations(t *testing.T) {
	t.Parallel()
	if !smalldisk.Enter(t) {
		return
	}
	disk := smalldisk.Mount(t, 400<<20)
	p := newPlane(t)
	s := &situations{plane: p, flags: map[*Node][]string{}, disk: disk, printed: map[string]bool{}}
	s.a, s.b, s.c = p.rig.Node("a"), p.rig.Node("b"), p.rig.Node("c")
	s.c.Dir = filepath.Join(disk, "data")
	s.nodes = []*Node{s.a, s.b, s.c}
	bundle := p.bundle("1.0.0", "1.0.0", "1.0.0")
	var join []string
	for _, n := range s.nodes {
		s.flags[n] = []string{bundle}
		p.start(n, append(join, s.flags[n]...)...)
		n.AwaitRunning()
		if n == s.a {
			join = joinArgs(t, n, 2)
		}
	}
	s.healed(s.nodes...)
	s.watched()
	s.memberDiskFull()
	s.memberDiskStalls()
	s.roleTakenWhileDown()
	s.joinUnanswered(bundle)
	s.authorityReplaced()
	s.oldCopy()
	s.twoVoters()
	s.wantCaused()
	for command, typed := range s.printed {
		if !typed {
			s.Errorf("a table shows %q, and no situation types it", command)
		}
	}
}

// printedCommand is a command in a table, without its flags.
var printedCommand = regexp.MustCompile(`sidecar (bundle|cluster|cordon|node|override|rollback|store|turn|uncordon)( [a-z0-9.-]+)*`)

// prints remembers the commands in a table.
func (s *situations) prints(table string) {
	for _, command := range printedCommand.FindAllString(table, -1) {
		command, _, _ = strings.Cut(command, " --")
		if _, known := s.printed[command]; !known {
			s.printed[command] = false
		}
	}
}

// says waits until the table of a node contains all texts, each in one line; "|" is anything
// between. Then it keeps the node's /status.
func (s *situations) says(n *Node, texts ...string) {
	s.Helper()
	s.prints(s.shows(n, texts...))
	s.capture(n)
}

// shows is says, without what is kept. It returns the table.
func (s *situations) shows(n *Node, texts ...string) (last string) {
	s.Helper()
	cluster.Await(s.T, fmt.Sprintf("the table of %s in the situation %s", n.ID, s.name), n.OnChange(func(context.Context) error {
		table, err := n.tryCommand(s.T, "status", "--server", n.URL())
		if err != nil {
			return fmt.Errorf("%w: %s", err, table)
		}
		last = table
		for _, text := range texts {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(text), `\|`, ".*")
			if !regexp.MustCompile(pattern).MatchString(table) {
				return fmt.Errorf("no line has %q in\n%s", text, table)
			}
		}
		return nil
	}))
	s.Logf("%s: %s shows\n%s", s.name, n.ID, last)
	return last
}

// saysEnded requires that `sidecar status` on the machine of a sidecar that has ended says how it ended, and names the next
// step; "|" is anything between.
func (s *situations) saysEnded(n *Node, text string) {
	s.Helper()
	out, err := n.tryCommand(s.T, "status", "--server", n.URL())
	pattern := strings.ReplaceAll(regexp.QuoteMeta("is the sidecar running? it "+text), `\|`, ".*")
	if err == nil || !regexp.MustCompile(pattern).MatchString(out) {
		s.Errorf("%s: %s, whose sidecar has ended, shows (%v)\n%s", s.name, n.ID, err, out)
	}
	s.Logf("%s: %s, whose sidecar has ended, shows\n%s", s.name, n.ID, out)
}

// wasKilled is what `sidecar status` says of a sidecar that was killed.
const wasKilled = "started at |and ended without a reason: it was killed |to see whether memory ran out: journalctl -k --since "

// capture keeps the /status of a node, with paths of a real machine.
func (s *situations) capture(n *Node) {
	if !*rewrite {
		return
	}
	s.Helper()
	_, body, err := n.Get(s.Context(), "/status")
	s.must(err)
	for i, other := range append(s.nodes, n) {
		body = strings.ReplaceAll(body, other.Dir, "/var/lib/lockstep")
		body = strings.ReplaceAll(body, other.Address, fmt.Sprintf("10.77.0.%d", i+1))
	}
	body = strings.ReplaceAll(body, strings.TrimPrefix(s.flags[n][0], "--bundle="), "/etc/lockstep/bundle")
	body = strings.ReplaceAll(body, filepath.Dir(s.rig.Kubeconfig), "/etc/kubernetes")
	host, err := os.Hostname()
	s.must(err)
	body = strings.NewReplacer(`"host": "`+host+`"`, `"host": "machine-1"`, "@"+host, "@machine-1").Replace(body)
	base := filepath.Join("../../cmd/sidecar/testdata/situations", s.name, n.ID)
	s.must(os.MkdirAll(filepath.Dir(base), 0o755))
	s.must(os.WriteFile(base+".json", []byte(body), 0o644))
	s.must(os.WriteFile(base+".now", []byte(time.Now().UTC().Format(time.RFC3339Nano)+"\n"), 0o644))
}

func (s *situations) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// types finds a command in the table of a node, by its beginning, and gives it to a shell.
func (s *situations) types(n *Node, begin string) string {
	s.Helper()
	return s.pastes(n.command(s.T, "status", "--server", n.URL()), begin)
}

// pastes finds a command in a table, and gives it to a shell.
func (s *situations) pastes(table, begin string) string {
	s.Helper()
	typed := regexp.MustCompile(regexp.QuoteMeta(begin) + `[^;,)\n]*`).FindString(table)
	if typed == "" {
		s.Fatalf("no %q in\n%s", begin, table)
	}
	command, _, _ := strings.Cut(typed, " --")
	s.printed[command] = true
	cmd := exec.CommandContext(s.Context(), "/bin/sh", "-c", typed)
	cmd.Dir = filepath.Dir(s.a.Dir)
	cmd.Env = append(os.Environ(), "PATH="+cluster.Assets(s.T, "sidecar")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("printed: %q; typed: %v\n%s", typed, err, out)
	}
	return string(out)
}

// healed waits until the next upgrade may start, on every node.
func (s *situations) healed(nodes ...*Node) {
	s.Helper()
	for _, n := range nodes {
		cluster.Await(s.T, "no obstacle on "+n.ID+" after the situation "+s.name, func(ctx context.Context) error {
			_, body, err := n.Get(ctx, "/status")
			if err == nil && !strings.Contains(body, `"upgradeReady": true`) {
				err = fmt.Errorf("it shows %s", body)
			}
			return err
		})
	}
}

// memberDiskFull: the member of c ends, and is started again for ever. Each node shows the
// cause, and names c, and none proposes to remove it.
func (s *situations) memberDiskFull() {
	s.name = "member-disk-full"
	filled := smalldisk.Fill(s.T, s.disk)
	client := s.a.Client()
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random)
	s.a.Put(client, "/test/large", string(random))
	const cause = "the etcd member |ended|no space left on device"
	for _, n := range []*Node{s.a, s.b} {
		s.says(n, "WARNINGS", "c|its sidecar runs, its etcd member ("+s.c.Address+") does not serve: "+cause, "UPGRADE|do not start", "c|not healthy")
	}
	s.says(s.c, "its etcd member cannot be used: "+cause, "UPGRADE|do not start")
	for _, n := range s.nodes {
		if table := n.command(s.T, "status", "--server", n.URL()); strings.Contains(table, "cluster remove") {
			s.Errorf("%s proposes to remove a member whose sidecar runs:\n%s", n.ID, table)
		}
	}
	s.fires(s.a, "MemberUnhealthy")
	smalldisk.Free(s.T, filled, 0)
	s.must(os.Remove(filled))
	s.healed(s.nodes...)
}

// memberDiskStalls: each write to the disk of c takes longer than a second. It answers, and so
// do the others: without the warning, people only see an etcd that is slow at times.
func (s *situations) memberDiskStalls() {
	s.name = "member-disk-stalls"
	disk, err := slowdisk.New()
	if err != nil {
		s.Run(s.name, func(t *testing.T) { t.Skipf("SKIPPED, NOT TESTED: %v", err) })
		return
	}
	s.must(s.c.Stop())
	s.c.Starter = disk.Start
	s.startAgain(s.c)
	disk.Take(1200 * time.Millisecond)
	for _, n := range s.nodes {
		s.says(n, "WARNINGS", "c  |the disk of its etcd member is slow|a write took |s or longer (limit 100ms)|find out what else uses that disk", "UPGRADE|see WARNINGS")
	}
	s.toldLater(s.a, "c", "DiskSlow|the disk of its etcd member is slow|a write took |s or longer (limit 100ms)")
	s.fires(s.a, "MemberDiskSlow")
	disk.Take(0)
	s.c.Starter = nil
	s.must(s.c.Stop())
	s.startAgain(s.c)
}

// toldLater: who asks why a node failed clients at this time learns the cause from another node, and from a file of that
// node's sidecar support alone.
func (s *situations) toldLater(n *Node, node, cause string) {
	s.Helper()
	at, out := time.Now().UTC().Format(time.RFC3339), ""
	pattern := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(cause), `\|`, ".*"))
	cluster.Await(s.T, "the cause of the situation "+s.name, func(context.Context) error {
		out = n.command(s.T, "explain", "--node="+node, "--at="+at)
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "  possible cause ") && pattern.MatchString(line) {
				return nil
			}
		}
		return fmt.Errorf("no line has %q in\n%s", cause, out)
	})
	text := n.support(s.T, s.rig.Kubeconfig).content["history.txt"]
	if !pattern.MatchString(text) {
		s.Errorf("history.txt does not have %q:\n%s", cause, text)
	}
	s.Logf("$ sidecar explain --node %s --at %s\n%s\nhistory.txt:\n%s", node, at, out, text)
}

// roleTakenWhileDown: a node that is off loses the role of a member, and votes until it starts.
func (s *situations) roleTakenWhileDown() {
	s.name = "role-taken-while-down"
	KillAll(s.c)
	s.saysEnded(s.c, wasKilled)
	alone := []*Node{s.a, s.b}
	for _, n := range alone {
		s.says(n, "PROBLEM|c: not alive", "c|it is not alive; start it again|; its etcd member ("+s.c.Address+"): |; etcd accepts no writes if another one of its voters stops",
			"UPGRADE|do not start")
	}
	out, err := s.a.tryCommand(s.T, "node", "set-roles", "b", "--remove", protocol.RoleConsensus)
	if err == nil || !strings.Contains(out, `without node "b"`) || !strings.Contains(out, "of which 2 must answer, and 1 would") {
		s.Errorf("a voter that a majority needs: %v: %s", err, out)
	}
	s.a.command(s.T, "node", "set-roles", "c", "--remove", protocol.RoleConsensus, "--force")
	for _, n := range alone {
		s.says(n, "c|it has lost the role consensus_member, and is a voter of etcd until its sidecar starts again: start that", "ROLES", "c|kubernetes_controller")
	}
	s.a.command(s.T, "node", "set-roles", "c", "--add", protocol.RoleConsensus)
	s.startAgain(s.c)
}

func (s *situations) startAgain(n *Node) {
	s.Helper()
	s.start(n, s.flags[n]...)
	awaitVoters(s.nodes...)
	s.healed(s.nodes...)
}

// joinUnanswered: a firewall drops the packets of a joining node.
func (s *situations) joinUnanswered(bundle string) {
	s.name = "join-unanswered"
	firewall := etcdtest.NewProxy(s.T, s.a.Address+":8087")
	firewall.Cut(etcdtest.Blackhole)
	args := joinArgs(s.T, s.a, 1)
	d := s.rig.Node("d")
	s.flags[d] = []string{bundle}
	s.start(d, "--join=https://"+firewall.Addr(), args[1], bundle)
	s.says(d, "GATE|NOT READY", "CLUSTER|JoiningCluster for |s: connecting to https://"+firewall.Addr())
	for _, n := range s.nodes {
		s.says(n, "UPGRADE|the next upgrade may start")
	}
	KillAll(d)
}

// authorityReplaced: c finds another CA in its directory. The cure that it prints is to copy
// files of another node.
func (s *situations) authorityReplaced() {
	s.name = "authority-replaced"
	file := func(n *Node, name string) string { return filepath.Join(n.Dir, "pki", name) }
	other := s.rig.Node("other")
	s.start(other, s.flags[s.c]...)
	other.AwaitRunning()
	s.must(s.c.Stop())
	s.copyFile(file(other, "ca.crt"), file(s.c, "ca.crt"))
	KillAll(other)
	wantText(s.T, s.c.Refused(s.flags[s.c]...), "is the CA of another cluster: copy \""+file(s.c, "ca.crt")+"\" and \""+file(s.c, "ca.key")+"\" from another member, which has the same")
	s.saysEnded(s.c, "ended at |is the CA of another cluster: copy \""+file(s.c, "ca.crt")+"\" and |`sidecar cluster token create --node c --data-dir="+s.c.Dir+"`")
	for _, n := range []*Node{s.a, s.b} {
		s.says(n, "c|it is not alive; start it again|; its etcd member ("+s.c.Address+"): ", "UPGRADE|do not start")
	}
	s.copyFile(file(s.a, "ca.crt"), file(s.c, "ca.crt"))
	s.copyFile(file(s.a, "ca.key"), file(s.c, "ca.key"))
	s.startAgain(s.c)
}

func (s *situations) copyFile(from, to string) {
	s.Helper()
	text, err := os.ReadFile(from)
	s.must(err)
	s.must(os.WriteFile(to, text, 0o600))
}

// oldCopy: c starts on an old copy of its data. It ends, and says how to replace it; the test
// types the printed commands.
func (s *situations) oldCopy() {
	s.name = "old-copy"
	s.must(s.c.Stop())
	saved := filepath.Join(s.TempDir(), "saved")
	s.must(os.CopyFS(saved, os.DirFS(s.c.Dir)))
	s.startAgain(s.c)
	client := s.a.Client()
	for i := range 50 {
		s.a.Put(client, fmt.Sprintf("/test/after-%d", i), "x")
	}
	awaitCaughtUp(s.T, s.c, s.a)
	s.must(s.c.Stop())
	s.must(os.RemoveAll(s.c.Dir))
	s.must(os.CopyFS(s.c.Dir, os.DirFS(saved)))
	restrict(s.T, s.c.Dir)
	last := s.c.Refused(s.flags[s.c]...)
	wantText(s.T, last, "is an older copy", "docs/clusters.md#replace-a-node", "`sidecar cluster token create --node c --data-dir="+s.c.Dir+"`", "`mv "+s.c.Dir+" ")
	s.saysEnded(s.c, "ended at |is an older copy|`sidecar cluster remove |`mv "+s.c.Dir+" "+s.c.Dir+".old`, then what `token create` printed")
	for _, n := range []*Node{s.a, s.b} {
		s.says(n, "c|it is not alive; start it again|; its etcd member ("+s.c.Address+"): ", "UPGRADE|do not start")
	}
	remove := regexp.MustCompile("sidecar cluster remove ([^` ]*) --data-dir=").FindStringSubmatch(last)
	if remove == nil || !strings.Contains(s.a.command(s.T, "cluster", "members"), remove[1]) {
		s.Errorf("no command with the ID of a member in %s", last)
	}
	for _, n := range []*Node{s.a, s.b} {
		s.says(n, "c|it is not alive; start it again, unless it is restarting")
	}
	// A command with the node's name does the same, and names the one for the rest of the departure.
	const rest = "sidecar node remove c --confirm-stopped"
	wantText(s.T, s.b.command(s.T, "cluster", "remove", "c"), "of node c removed", rest)
	s.name = "member-removed"
	for _, n := range []*Node{s.a, s.b} {
		s.says(n, "c|it is not alive: its etcd member was removed at |; if it has stopped for good: "+rest+"|"+"to bring it back, delete its data directory, "+
			"and join with a new token: sidecar cluster token create --node c")
	}
	wantText(s.T, s.types(s.b, rest), "node c removed")
}

// restrict gives the files of a data directory the rights that a sidecar gives them.
func restrict(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// twoVoters: an upgrade costs the whole etcd. That is no obstacle, and is said beside the
// answer, with a command that leads to a third one.
func (s *situations) twoVoters() {
	s.name = "two-voters"
	alone := []*Node{s.a, s.b}
	s.healed(alone...)
	for _, n := range alone { // without --node: the ID of a new node is not known
		s.says(n, "UPGRADE|may start|etcd, and each kube-apiserver that uses it, stop during the upgrade; add a third voter: sidecar cluster token create --data-dir="+n.Dir)
	}
	s.oneOfTwoStalls()
	out := s.types(s.b, "sidecar cluster token create")
	args, err := cluster.JoinFlags(out)
	s.must(err)
	s.must(os.RemoveAll(s.c.Dir))
	s.start(s.c, append(args, s.flags[s.c]...)...)
	awaitVoters(s.nodes...)
	s.healed(s.nodes...)
	s.memberStalls()
	s.bothVotersStopped()
}

// oneOfTwoStalls: the member of b stops, and goes on when people let it. No node proposes a restore: on b, it would save and
// spread what the stalled member has.
func (s *situations) oneOfTwoStalls() {
	s.b.signalMember(syscall.SIGSTOP)
	const none = "b  |1 of 2 voters of etcd does not serve, so there is no majority and etcd accepts no writes: b ("
	for n, remedy := range map[*Node]string{s.a: "start this node", s.b: "check here why this node's member does not serve"} {
		table := s.shows(n, none+s.b.Address+"); "+remedy)
		if strings.Contains(table, "cluster restore") {
			s.Errorf("%s proposes a restore:\n%s", n.ID, table)
		}
	}
	s.b.signalMember(syscall.SIGCONT)
	s.healed(s.a, s.b)
}

// memberStalls: the member that leads etcd hangs, four times. The first time, every node
// says whose process does not answer, and none proposes to remove it; afterwards, that it happens again
// and again.
func (s *situations) memberStalls() {
	s.name = "member-stalls"
	stalled := s.etcdLeader(nil)
	stalled.signalMember(syscall.SIGSTOP)
	for _, n := range s.nodes {
		s.says(n, stalled.ID+"|its |etcd member |its process runs, and does not answer: the process was stopped, or its disk or the machine hangs", "UPGRADE|do not start")
		if table := n.command(s.T, "status", "--server", n.URL()); strings.Contains(table, "cluster remove") {
			s.Errorf("%s proposes to remove a member whose sidecar runs:\n%s", n.ID, table)
		}
	}
	for range 3 {
		next := s.etcdLeader(stalled)
		stalled.signalMember(syscall.SIGCONT)
		s.follows(stalled)
		next.signalMember(syscall.SIGSTOP)
		stalled = next
	}
	s.etcdLeader(stalled)
	stalled.signalMember(syscall.SIGCONT)
	s.healed(s.nodes...)
	s.name = "member-stalled-often"
	for _, n := range s.nodes {
		s.says(n, "WARNINGS", "etcd's leader changed |times within the last 10 minutes: in that time, these members stopped answering: ", "UPGRADE|see WARNINGS")
	}
	s.fires(s.a, "MemberLeaderChanges")
}

// follows waits until the member of a node, which led before it stalled, knows another leader: each member counts
// only the leaders that it sees.
func (s *situations) follows(n *Node) {
	s.Helper()
	s.knowsLeader(n, n)
}

// etcdLeader waits until a node other than this one leads etcd, and returns it. Every node but that one must
// see it; nil: every node.
func (s *situations) etcdLeader(except *Node) (leads *Node) {
	s.Helper()
	for _, n := range s.nodes {
		if n != except {
			leads = s.knowsLeader(n, except)
		}
	}
	return leads
}

// knowsLeader waits until the member of a node knows a leader other than that of except, and returns its node. It asks
// the member: a sidecar that sees all members healthy asks them again after ten seconds.
func (s *situations) knowsLeader(n, except *Node) (leads *Node) {
	s.Helper()
	c := n.Client()
	cluster.Await(s.T, "the member of "+n.ID+" to know a leader", func(ctx context.Context) error {
		now, err := c.MemberStatus(ctx, n.Marker().ClientURL())
		if err != nil {
			return err
		}
		for _, m := range s.nodes {
			if id, _ := keyspace.ParseMemberID(m.Marker().MemberID); id == now.Leader && m != except {
				leads = m
				return nil
			}
		}
		return fmt.Errorf("it follows %x", now.Leader)
	})
	return leads
}

// bothVotersStopped: b and c are killed. The one that is left says which ones do not serve, and
// does not count those that only wait for them.
func (s *situations) bothVotersStopped() {
	s.name = "no-majority"
	KillAll(s.b, s.c)
	s.saysEnded(s.b, wasKilled)
	s.says(s.a, "b, c  |2 of 3 voters of etcd do not serve, so there is no majority and etcd accepts no writes: b ("+s.b.Address+"), c ("+s.c.Address+"); start these nodes",
		"ETCD|NOT CONNECTED for ", "UPGRADE|do not start")
	if table := s.a.command(s.T, "status", "--server", s.a.URL()); strings.Contains(table, "cluster restore") || strings.Contains(table, "does not answer: the process was stopped") {
		s.Errorf("a proposes a restore at once, or says that its own member hangs:\n%s", table)
	}
	list, err := s.a.tryCommand(s.T, "cluster", "members")
	if err == nil {
		s.Errorf("without a majority, sidecar cluster members does not fail:\n%s", list)
	}
	s.pastes(list, "sidecar cluster snapshot")
	s.must(s.a.Stop())
	s.pastes(list, "sidecar cluster restore")
	s.start(s.a, s.flags[s.a]...)
	s.a.AwaitRunning()
}
