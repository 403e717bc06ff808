package lockstep

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// The values of Options.Etcd.
const (
	// EtcdExternal: etcd runs elsewhere, at Options.EtcdServers.
	EtcdExternal = "external"
	// EtcdEmbedded: the sidecars run the etcd members themselves (docs/clusters.md).
	EtcdEmbedded = "embedded"
)

const defaultEtcdServer = "http://127.0.0.1:2379"

// checkCluster checks Etcd, and the fields that depend on it.
func (o Options) checkCluster(p *problems) {
	switch o.Etcd {
	case EtcdExternal:
		o.checkExternal(p)
	case EtcdEmbedded:
		o.checkEmbedded(p)
	default:
		p.add("Etcd", "etcd", "%q: must be %s or %s", o.Etcd, EtcdExternal, EtcdEmbedded)
	}
}

func (o Options) checkExternal(p *problems) {
	const remedy = "has no effect with an etcd that runs elsewhere: set --etcd=embedded too, or leave it out"
	if o.NodeAddress != "" && o.Services != "" {
		o.checkAddress(p)
		o.NodeAddress = ""
	}
	if o.SnapshotEvery != 0 {
		p.add("SnapshotEvery", "snapshot-every", remedy)
	}
	for _, set := range []struct{ field, flag, value string }{
		{"NodeAddress", "node-address", o.NodeAddress}, {"Join", "join", o.Join},
		{"Token", "token", o.Token}, {"TokenFile", "token-file", o.TokenFile},
	} {
		if set.value != "" {
			p.add(set.field, set.flag, remedy)
		}
	}
}

func (o Options) checkEmbedded(p *problems) {
	if !slices.Equal(o.EtcdServers, []string{defaultEtcdServer}) {
		p.add("EtcdServers", "etcd-servers", "the sidecars run etcd themselves with --etcd=embedded: leave it out, or set --etcd=external")
	}
	for _, file := range []struct{ field, flag, value string }{
		{"EtcdCAFile", "etcd-cafile", o.EtcdCAFile}, {"EtcdCertFile", "etcd-certfile", o.EtcdCertFile},
		{"EtcdKeyFile", "etcd-keyfile", o.EtcdKeyFile},
	} {
		if file.value != "" {
			p.add(file.field, file.flag, "the cluster has certificates of its own with --etcd=embedded: leave it out")
		}
	}
	o.checkPorts(p)
	if o.EtcdQuotaBytes < member.MinQuotaBytes {
		p.add("EtcdQuotaBytes", "etcd-quota-bytes", "%d: must be at least %d (16 MiB)", o.EtcdQuotaBytes, member.MinQuotaBytes)
	}
	if o.NodeAddress != "" {
		o.checkAddress(p)
	}
	o.checkSnapshots(p)
	o.checkJoin(p)
}

func (o Options) checkSnapshots(p *problems) {
	if o.SnapshotEvery != 0 && o.SnapshotEvery < time.Second {
		p.add("SnapshotEvery", "snapshot-every", "%s: must be 0 (none) or at least 1s", o.SnapshotEvery)
	}
	if o.SnapshotKeep < 1 {
		p.add("SnapshotKeep", "snapshot-keep", "%d: must be at least 1", o.SnapshotKeep)
	}
}

// snapshots returns the plan of the snapshots that this node saves by itself.
func (o Options) snapshots() (backup.Plan, error) {
	dir, err := filepath.Abs(cmp.Or(o.SnapshotDir, datadir.Layout(o.DataDir).Snapshots()))
	if err != nil {
		return backup.Plan{}, fmt.Errorf("directory of the snapshots %q: %w", o.SnapshotDir, err)
	}
	return backup.Plan{Every: o.SnapshotEvery, Keep: o.SnapshotKeep, Dir: dir}, nil
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
// at NodeAddress, or with EtcdExternal contains the roles of a node.
func (o Options) ranHere() bool {
	files := datadir.Layout(o.DataDir)
	if o.Etcd == EtcdExternal {
		_, err := os.Stat(files.Roles())
		return err == nil
	}
	marker, err := files.ReadMarker()
	return err == nil && marker.Address == o.NodeAddress
}

func (o Options) checkPorts(p *problems) {
	ports := []struct {
		field, flag string
		port        int
	}{
		{"PeerPort", "peer-port", o.PeerPort}, {"ClientPort", "client-port", o.ClientPort}, {"JoinPort", "join-port", o.JoinPort},
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

func (o Options) checkJoin(p *problems) {
	hasToken := o.Token != "" || o.TokenFile != ""
	switch {
	case o.Token != "" && o.TokenFile != "":
		p.add("TokenFile", "token-file", "set either --token or --token-file")
	case o.Join == "" && hasToken:
		p.add("Join", "join", "required with a token: https://HOST:PORT, the join port of a member")
	case o.Join == "":
		return
	case !hasToken:
		p.add("Token", "token", "required to join: type `sidecar cluster token create` on a member")
	}
	if u, err := url.Parse(o.Join); o.Join != "" && (err != nil || u.Scheme != "https" || u.Port() == "" || u.User != nil) {
		p.add("Join", "join", "%q: must be https://HOST:PORT, the join port of a member", o.Join)
	}
}

// embedded returns the configuration of this node's member; nil: etcd runs elsewhere.
func (o Options) embedded(node protocol.NodeID) (*cluster.Embedded, error) {
	if o.Etcd != EtcdEmbedded {
		return nil, nil
	}
	address, err := o.nodeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", o.DataDir, err)
	}
	command := o.EtcdMemberCommand
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program, to start the etcd member: %w", err)
		}
		command = []string{self, MemberCommand, datadir.Layout(dir).Program()}
	}
	return &cluster.Embedded{
		DataDir: dir, Node: string(node), Address: address,
		PeerPort: o.PeerPort, ClientPort: o.ClientPort, JoinPort: o.JoinPort, QuotaBytes: o.EtcdQuotaBytes,
		Join: o.Join, Token: o.Token, TokenFile: o.TokenFile, Command: command,
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
