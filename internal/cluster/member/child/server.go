package child

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/member/ports"
	"github.com/lockstep-dev/lockstep/internal/cluster/member/stopguard"
)

// nodesFile is beside the data of etcd: the addresses of nodes.
const nodesFile = "nodes.json"

const (
	// headerTimeout bounds the first lines of a request. A whole one may take any time: it may be a snapshot.
	headerTimeout = time.Minute
	// reservedFiles are the file descriptors that clients never use: etcd's own. Besides, a quarter of all is for
	// connections to the peer port, half of them of strangers.
	reservedFiles = 150
	fewestClients = 64
	peersPart     = 8
	clientsPart   = 2 // for handshakes
	// At most so many handshakes from the addresses of nodes are under way. A kube-apiserver begins thousands at once.
	mostPeers, mostClients = 1 << 10, 1 << 13
)

// etcdServer is etcd's server, with servers of ours for its ports. etcd's package embed takes no listeners,
// and verifies a chain of any length (docs/adr/0024-strangers-have-an-allowance.md#etcd).
type etcdServer struct {
	*etcdserver.EtcdServer
	ports        *ports.Ports
	peer, client *ports.Port
	guard        stopguard.Guard
	peers        *http.Server
	grpc         *grpc.Server // of clients, as http; both nil until etcd is ready
	http         *http.Server
	calls        atomic.Int64 // requests of clients that are under way, without streams
	running      sync.WaitGroup
}

// startServer starts etcd's server. It answers peers. serveClients follows when it is ready.
func startServer(spec member.Spec, cfg config.ServerConfig) (*etcdServer, error) {
	s := &etcdServer{}
	if err := s.listen(spec, cfg); err != nil {
		return nil, err
	}
	var err error
	if s.EtcdServer, err = etcdserver.NewServer(cfg); err != nil {
		s.closePorts()
		return nil, err
	}
	s.guard.Watch(s.EtcdServer)
	s.know()
	s.Start()
	s.peers = httpServer(etcdhttp.NewPeerHandler(cfg.Logger, s.EtcdServer))
	s.running.Go(func() { _ = s.peers.Serve(s.peer.HTTP()) }) // it ends by stop
	_ = s.peer.GRPC().Close()                                 // no peer speaks HTTP/2
	s.peer.Start(rafthttp.ConnReadTimeout)
	return s, nil
}

// listen opens both ports.
func (s *etcdServer) listen(spec member.Spec, cfg config.ServerConfig) (err error) {
	s.ports, err = ports.New(ports.Config{
		CAFile: spec.CAFile, CertFile: spec.CertFile, KeyFile: spec.KeyFile, NodesFile: filepath.Join(spec.Dir, nodesFile),
		Warn: cfg.Logger.Sugar().Warnw,
	})
	if err != nil {
		return err
	}
	const most = 1 << 20
	files := int(min(allowance.FileLimit(), most)) //nolint:gosec // as bounded here
	s.peer, err = s.ports.Listen(cfg.PeerURLs[0].Host, ports.Bounds{Handshakes: max(fewestClients, min(mostPeers, files/peersPart))})
	if err != nil {
		return err
	}
	s.client, err = s.ports.Listen(cfg.ClientURLs[0].Host, ports.Bounds{
		Handshakes: max(fewestClients, min(mostClients, files/clientsPart)),
		// Peers and etcd's files need descriptors too.
		Connections: max(fewestClients, files-2*files/peersPart-reservedFiles),
	})
	if err != nil {
		s.peer.Close()
	}
	return err
}

// serveClients begins to answer clients, once etcd is ready.
func (s *etcdServer) serveClients() {
	mux := http.NewServeMux()
	etcdhttp.HandleDebug(mux)
	etcdhttp.HandleVersion(mux, s.EtcdServer)
	etcdhttp.HandleMetrics(mux)
	etcdhttp.HandleHealth(s.Logger(), mux, s.EtcdServer)
	s.http = httpServer(mux)
	s.grpc = v3rpc.Server(s.EtcdServer, nil, s.count, append(s.guard.Options(), grpc.Creds(shown{}),
		// Clients may find out as often as they like whether a connection lives.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Nanosecond, PermitWithoutStream: true}))...)
	s.running.Go(func() { _ = s.http.Serve(s.client.HTTP()) }) // both end by stop
	s.running.Go(func() { _ = s.grpc.Serve(s.client.GRPC()) })
	s.client.Start(0)
}

// httpServer answers HTTP/1.1, as the members of etcd ask.
func httpServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0), // the client's mistakes
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	return server
}

// know gives the ports the addresses of the members.
func (s *etcdServer) know() {
	var all []string
	for _, m := range s.Cluster().Members() {
		for _, peer := range m.PeerURLs {
			if u, err := url.Parse(peer); err == nil {
				all = append(all, u.Host)
			}
		}
	}
	s.ports.Know(all)
}

// count counts the requests that are under way.
func (s *etcdServer) count(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return next(ctx, request)
}

// shown are the credentials of a connection after its handshake.
type shown struct{}

// ServerHandshake returns the connection. There is nothing left to do.
func (shown) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	client, is := conn.(*tls.Conn)
	if !is || len(client.ConnectionState().PeerCertificates) == 0 {
		return nil, nil, net.ErrClosed // ports hands over no such connection
	}
	state := client.ConnectionState()
	state.VerifiedChains = [][]*x509.Certificate{state.PeerCertificates[:1]} // by ports; etcd's users are named by it
	return conn, credentials.TLSInfo{
		State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ClientHandshake is for clients.
func (shown) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, credentials.ErrConnDispatched
}

// Info names the protocol.
func (shown) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns the same: it has no state.
func (s shown) Clone() credentials.TransportCredentials { return s }

// OverrideServerName is for clients.
func (shown) OverrideServerName(string) error { return nil }
