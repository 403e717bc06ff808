package child

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/member/front"
)

// The names of etcd's sockets in its working directory: a whole path may be too long for a socket.
const (
	peerSocket   = "peer"
	clientSocket = "client"
)

// socketsDir is the directory of the sockets in the directory of etcd. No other user can enter it.
const (
	socketsDir  = "sockets"
	socketsMode = 0o700
)

// ports are the two of a member.
type ports struct {
	front        *front.Front
	peer, client *front.Port
}

// open listens at both ports, and makes the directory of the sockets the working directory of this process. All
// paths of a Spec are absolute. No connection is accepted before serve.
func open(spec member.Spec, log *zap.Logger) (*ports, error) {
	f, err := front.New(front.Config{CAFile: spec.CAFile, CertFile: spec.CertFile, KeyFile: spec.KeyFile, Warn: log.Sugar().Warnw})
	if err != nil {
		return nil, err
	}
	peer, err := listen(f, spec.PeerURL)
	if err != nil {
		return nil, err
	}
	client, err := listen(f, spec.ClientURL)
	if err != nil {
		peer.Close()
		return nil, err
	}
	if err := enterSockets(spec.Dir); err != nil {
		peer.Close()
		client.Close()
		return nil, fmt.Errorf("the sockets of etcd: %w", err)
	}
	return &ports{f, peer, client}, nil
}

func listen(f *front.Front, address string) (*front.Port, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return f.Listen(u.Host)
}

// enterSockets makes an empty directory for the sockets, in place of that of a process that was killed.
func enterSockets(dir string) error {
	if err := os.MkdirAll(dir, socketsMode); err != nil { // as etcd does
		return err
	}
	sockets := filepath.Join(dir, socketsDir)
	if err := os.RemoveAll(sockets); err != nil {
		return err
	}
	if err := os.Mkdir(sockets, socketsMode); err != nil {
		return err
	}
	return os.Chdir(sockets)
}

// serve begins to pass what clients send, once etcd runs.
func (p *ports) serve() {
	p.peer.Serve(peerSocket, rafthttp.ConnWriteTimeout)
	p.client.Serve(clientSocket, 0)
}

// know gives the front the addresses of the members.
func (p *ports) know(members []*membership.Member) {
	var all []string
	for _, m := range members {
		for _, peer := range m.PeerURLs {
			if u, err := url.Parse(peer); err == nil {
				all = append(all, u.Host)
			}
		}
	}
	p.front.Know(all)
}

func (p *ports) close() {
	p.client.Close()
	p.peer.Close()
}
