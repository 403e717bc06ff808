package lockstep

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// Etcd is an etcd that sidecars use: External or Embedded.
type Etcd interface{ etcd() }

// External is an etcd that runs elsewhere.
type External struct {
	// Servers are the URLs of the etcd servers, http or https. Empty: http://127.0.0.1:2379.
	Servers []string
	// CAFile is a PEM file with the certificate authorities of the etcd servers. Empty: the
	// system's authorities.
	CAFile string
	// CertFile is a PEM file with the client certificate for etcd. It needs KeyFile. Empty: no
	// client certificate.
	CertFile string
	// KeyFile is a PEM file with the key of CertFile.
	KeyFile string
}

// Embedded is an etcd whose members the sidecars run themselves (docs/clusters.md). DataDir and NodeAddress
// are fields of Options: services use them too.
type Embedded struct {
	// PeerPort is the port at NodeAddress for the traffic between members. Zero: 8089.
	PeerPort int
	// ClientPort is the port at NodeAddress on which the member serves the sidecars.
	// Zero: 8088.
	ClientPort int
	// JoinPort is the port at NodeAddress on which this sidecar answers nodes that
	// join. Zero: 8087.
	JoinPort int
	// QuotaBytes is the size of the member's database at which etcd refuses writes. Use the same
	// size on all nodes. Zero: 8 GiB.
	QuotaBytes int64
	// SnapshotEvery is the time between two snapshots of etcd that this node saves by itself while its
	// member votes; at least 1 s. Zero, the default: it saves none.
	SnapshotEvery time.Duration
	// SnapshotKeep is the number of snapshots to keep. Zero: 28.
	SnapshotKeep int
	// SnapshotDir is the directory of the snapshots. Empty: the directory snapshots in DataDir.
	SnapshotDir string
	// Join is the URL of the join port of any member. It is used only while DataDir contains no
	// member. Empty: the sidecar creates a new cluster there.
	Join string
	// Token allows this node to join; `sidecar cluster token create` prints it. Join needs Token or
	// TokenFile.
	Token string
	// TokenFile is a file with the token. It is read only when the node joins.
	TokenFile string
	// MemberCommand starts MemberMain in a program that is not the command sidecar. Empty: this
	// program with the arguments etcd-member and DIR, where it may unpack a program. There is no flag
	// for this field.
	MemberCommand []string
}

func (External) etcd() {}
func (Embedded) etcd() {}

// WithDefaults returns e with the defaults in place of zero fields.
func (e External) WithDefaults() External {
	if len(e.Servers) == 0 {
		e.Servers = []string{"http://127.0.0.1:2379"}
	}
	return e
}

// WithDefaults returns e with the defaults in place of zero fields.
func (e Embedded) WithDefaults() Embedded {
	e.PeerPort = cmp.Or(e.PeerPort, 8089)
	e.ClientPort = cmp.Or(e.ClientPort, 8088)
	e.JoinPort = cmp.Or(e.JoinPort, 8087)
	e.QuotaBytes = cmp.Or(e.QuotaBytes, member.DefaultQuotaBytes)
	e.SnapshotKeep = cmp.Or(e.SnapshotKeep, 28)
	return e
}

// Config returns the configuration of the etcd client for keys with a prefix. Its Log is not set.
func (e External) Config(prefix string) etcd.Config {
	return etcd.Config{
		Endpoints: e.WithDefaults().Servers, Prefix: prefix, CAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile,
	}
}

// runsEtcd reports whether the sidecars run etcd themselves.
func (o Options) runsEtcd() bool { _, runs := o.Etcd.(Embedded); return runs }

// checkEtcd checks Etcd, and the fields that depend on it.
func (o Options) checkEtcd(p *problems) {
	switch e := o.Etcd.(type) {
	case External:
		e.check(p)
		switch {
		case o.NodeAddress != "" && o.Services != "":
			o.checkAddress(p)
		case o.NodeAddress != "":
			p.add("NodeAddress", "node-address", "has no effect with an etcd that runs elsewhere: set --etcd=embedded too, or leave it out")
		}
	case Embedded:
		if o.NodeAddress != "" {
			o.checkAddress(p)
		}
		e.check(p)
	default:
		p.add("Etcd", "etcd", "%T: must be lockstep.External{...} or lockstep.Embedded{...}, and no pointer", o.Etcd)
	}
}

func (o Options) checkPrefix(p *problems) {
	if !strings.HasPrefix(o.EtcdPrefix, "/") || strings.Trim(o.EtcdPrefix, "/") == "" {
		p.add("EtcdPrefix", "etcd-prefix", "%q: must begin with a slash and contain more than slashes, like /lockstep/", o.EtcdPrefix)
	}
}

// ValidateExternal returns the problems of e and a prefix of the keys as Options.Validate does.
func ValidateExternal(e External, prefix string) error {
	var p problems
	Options{EtcdPrefix: prefix}.withDefaults().checkPrefix(&p)
	e.WithDefaults().check(&p)
	return errors.Join(p...)
}

func (e External) check(p *problems) {
	for _, s := range e.Servers {
		switch {
		case strings.Contains(s, "@"):
			// Do not repeat the rest of it: it may contain a password.
			host := s[strings.LastIndex(s, "@"):]
			p.add("Etcd.Servers", "etcd-servers", "...%s: must not have a user or a password; use a client certificate: --etcd-certfile and --etcd-keyfile", host)
		case !isWebURL(s):
			p.add("Etcd.Servers", "etcd-servers", "%q: must be http://HOST:PORT or https://HOST:PORT", s)
		}
	}
	switch {
	case e.CertFile != "" && e.KeyFile == "":
		p.add("Etcd.CertFile", "etcd-certfile", "has no key: set --etcd-keyfile too")
	case e.CertFile == "" && e.KeyFile != "":
		p.add("Etcd.KeyFile", "etcd-keyfile", "has no certificate: set --etcd-certfile too")
	}
}

func (e Embedded) check(p *problems) {
	e.checkPorts(p)
	if e.QuotaBytes < member.MinQuotaBytes {
		p.add("Etcd.QuotaBytes", "etcd-quota-bytes", "%d: must be at least %d (16 MiB)", e.QuotaBytes, member.MinQuotaBytes)
	}
	e.checkSnapshots(p)
	e.checkJoin(p)
}

func (e Embedded) checkSnapshots(p *problems) {
	if e.SnapshotEvery != 0 && e.SnapshotEvery < time.Second {
		p.add("Etcd.SnapshotEvery", "snapshot-every", "%s: must be 0 (none) or at least 1s", e.SnapshotEvery)
	}
	if e.SnapshotKeep < 1 {
		p.add("Etcd.SnapshotKeep", "snapshot-keep", "%d: must be at least 1", e.SnapshotKeep)
	}
}

// snapshots returns the plan of the snapshots that this node saves by itself.
func (o Options) snapshots(e Embedded) (backup.Plan, error) {
	dir, err := filepath.Abs(cmp.Or(e.SnapshotDir, datadir.Layout(o.DataDir).Snapshots()))
	if err != nil {
		return backup.Plan{}, fmt.Errorf("directory of the snapshots %q: %w", e.SnapshotDir, err)
	}
	return backup.Plan{Every: e.SnapshotEvery, Keep: e.SnapshotKeep, Dir: dir}, nil
}

func (o Options) checkAddress(p *problems) {
	problem := nodeaddress.Malformed(o.NodeAddress)
	if problem == "" && !o.ranHere() { // else the machine may have started before its network
		problem = nodeaddress.Missing(o.NodeAddress)
	}
	if problem != "" {
		p.add("NodeAddress", "node-address", "%q: %s", o.NodeAddress, problem)
	}
}

// ranHere reports whether a sidecar ran with these options: the data directory belongs to a member
// at NodeAddress, or with External contains the roles of a node.
func (o Options) ranHere() bool {
	files := datadir.Layout(o.DataDir)
	if !o.runsEtcd() {
		_, err := os.Stat(files.Roles())
		return err == nil
	}
	marker, err := files.ReadMarker()
	return err == nil && marker.Address == o.NodeAddress
}

func (e Embedded) checkPorts(p *problems) {
	ports := []struct {
		field, flag string
		port        int
	}{
		{"Etcd.PeerPort", "peer-port", e.PeerPort}, {"Etcd.ClientPort", "client-port", e.ClientPort},
		{"Etcd.JoinPort", "join-port", e.JoinPort},
	}
	for i, a := range ports {
		if a.port < 1 || a.port > 65535 {
			p.add(a.field, a.flag, "%d: must be from 1 to 65535", a.port)
		}
		for _, b := range ports[:i] {
			if a.port == b.port {
				p.add(a.field, a.flag, "%d: is the port of --%s too: each needs one of its own", a.port, b.flag)
			}
		}
	}
}

func (e Embedded) checkJoin(p *problems) {
	hasToken := e.Token != "" || e.TokenFile != ""
	switch {
	case e.Token != "" && e.TokenFile != "":
		p.add("Etcd.TokenFile", "token-file", "set either --token or --token-file")
	case e.Join == "" && hasToken:
		p.add("Etcd.Join", "join", "required with a token: https://HOST:PORT, the join port of a member")
	case e.Join == "":
		return
	case !hasToken:
		p.add("Etcd.Token", "token", "required to join: type `sidecar cluster token create` on a member")
	}
	if u, err := url.Parse(e.Join); e.Join != "" && (err != nil || u.Scheme != "https" || u.Port() == "" || u.User != nil) {
		p.add("Etcd.Join", "join", "%q: must be https://HOST:PORT, the join port of a member", e.Join)
	}
}

// member returns the configuration of this node's member.
func (o Options) member(e Embedded, node protocol.NodeID) (*cluster.Embedded, error) {
	address, err := o.nodeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", o.DataDir, err)
	}
	command := e.MemberCommand
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program, to start the etcd member: %w", err)
		}
		command = []string{self, MemberCommand, datadir.Layout(dir).Program()}
	}
	return &cluster.Embedded{
		DataDir: dir, Node: string(node), Address: address,
		PeerPort: e.PeerPort, ClientPort: e.ClientPort, JoinPort: e.JoinPort, QuotaBytes: e.QuotaBytes,
		Join: e.Join, Token: e.Token, TokenFile: e.TokenFile, Command: command,
	}, nil
}

// nodeAddress returns NodeAddress; without one, the address that the data directory was created
// with. So a member keeps its address when the machine gets an additional one. Empty: use the
// address of the default route, once it exists.
func (o Options) nodeAddress() (string, error) {
	if o.NodeAddress != "" {
		return o.NodeAddress, nil
	}
	marker, err := datadir.Layout(o.DataDir).ReadMarker()
	if err != nil && !errors.Is(err, datadir.ErrNoMarker) {
		return "", err
	}
	return marker.Address, nil
}

func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// DefaultOverrideFile is the default of Options.OverrideFile.
const DefaultOverrideFile = status.DefaultOverrideFile
