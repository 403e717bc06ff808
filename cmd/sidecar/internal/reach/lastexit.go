package reach

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/machine"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
)

// Exit is how a sidecar ended.
type Exit struct {
	Time   time.Time `json:"time"`
	Listen string    `json:"listen"`
	Error  string    `json:"error"` // empty: it was stopped
}

func (e Exit) String() string {
	at := e.Time.UTC().Format(time.RFC3339)
	if e.Error == "" {
		return "it was stopped at " + at + startAgain
	}
	return "it ended at " + at + ": " + e.Error
}

// startAgain is the remedy for a sidecar that does not run, and has no mistake to correct first.
const startAgain = "; to start it again, with systemd: systemctl start lockstep (with services: systemctl start lockstep-services)"

// lastExit returns how the sidecar at a URL of this machine ended; empty: not known.
func lastExit(p console.Program, base string) string {
	u, err := url.Parse(base)
	if err != nil || p.LookupEnv == nil {
		return ""
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return ""
	}
	return terminal.Clean(cmp.Or(leftReason(p, u), silentEnd(p, u), loggedReason(p, u.Port())))
}

// dirOf is the data directory of this machine's sidecar, as far as the environment says.
func dirOf(p console.Program) datadir.Layout {
	dir, _ := p.LookupEnv(console.EnvName("data-dir"))
	return datadir.Layout(cmp.Or(dir, lockstep.Defaults().DataDir))
}

// listensAt reports whether a sidecar with a value of --listen answers at a URL of this machine. Several sidecars
// of one machine have addresses of their own.
func listensAt(listen string, u *url.URL) bool {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != u.Port() {
		return false
	}
	own, err := netip.ParseAddr(host)
	asked, failed := netip.ParseAddr(u.Hostname())
	return err != nil || failed != nil || own.IsUnspecified() || own == asked
}

// silentEnd reports that the sidecar at a URL ended and left no reason, or that it runs.
func silentEnd(p console.Program, u *url.URL) string {
	run, pid, found := dirOf(p).LastRun()
	if !found || !listensAt(run.Listen, u) {
		return ""
	}
	since := run.Since.UTC()
	switch {
	case pid != 0:
		return fmt.Sprintf("its process %d runs since %s, and does not answer there: its log says what it does", pid, since.Format(time.RFC3339))
	case run.Boot != "" && run.Boot != machine.BootID():
		return fmt.Sprintf("it started at %s and ended without a reason, as in a loss of power: the machine has started again since, and the sidecar has not"+startAgain,
			since.Format(time.RFC3339))
	}
	return fmt.Sprintf("it started at %s and ended without a reason: it was killed (kill -9, out of memory), or it crashed, which its log shows"+startAgain+
		"; to see whether memory ran out: "+kernelLog, since.Format(time.RFC3339), since.Format("2006-01-02 15:04:05 UTC"))
}

// kernelLog is the command that lists the processes which the kernel has killed since a time.
const kernelLog = `journalctl -k --since "%s" | grep -i "killed process"`

// leftReason returns what the sidecar at a URL left in its data directory.
func leftReason(p console.Program, u *url.URL) string {
	text, err := os.ReadFile(dirOf(p).Ended())
	var e Exit
	if err != nil || json.Unmarshal(text, &e) != nil {
		return ""
	}
	if !listensAt(e.Listen, u) {
		return ""
	}
	return e.String()
}

// printedReason matches the lines with which a sidecar ended, as the kubelet stores them.
var printedReason = regexp.MustCompile(`^\S+ stderr F sidecar: (.*)$`)

// loggedReason returns the reason at the end of the newest log of the sidecar in a static pod.
func loggedReason(p console.Program, port string) string {
	files, err := filepath.Glob(p.PodLogs)
	if err != nil || port != nodeaddress.DefaultPort {
		return ""
	}
	newest, at := "", time.Time{}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.ModTime().After(at) {
			newest, at = file, info.ModTime()
		}
	}
	text, err := tail(newest)
	if newest == "" || err != nil {
		return ""
	}
	var reasons []string
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(text), "\n")) {
		m := printedReason.FindStringSubmatch(line)
		if m == nil {
			break
		}
		reasons = append([]string{m[1]}, reasons...)
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("its log ends without a reason (%s), so it starts, was stopped, or was killed (kill -9, out of memory): to see how its container ended: crictl ps -a --name %s",
			newest, kubeadm.Container)
	}
	return fmt.Sprintf("its container ended at %s, and the kubelet starts it again after at most five minutes: %s (%s)",
		at.UTC().Format(time.RFC3339), strings.Join(reasons, "; "), newest)
}

// logTail is how much of a log is read: its end has the reason.
const logTail = 16 << 10

func tail(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		if _, err := f.Seek(-logTail, io.SeekEnd); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(f)
	return string(text), err
}
