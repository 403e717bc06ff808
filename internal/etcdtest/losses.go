package etcdtest

import (
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// losses makes a server's watches lose events.
type losses struct {
	mu   sync.Mutex // mu guards the fields below
	key  string     // whose events are lost; empty: none
	lost int
}

// LoseEvents makes all watches lose the events of a key, as a fault of etcd would:
// they report later events as if nothing had happened. An empty key ends that. It
// returns how many events were lost before.
func (s *Server) LoseEvents(key string) (lost int) {
	s.losses.mu.Lock()
	defer s.losses.mu.Unlock()
	s.losses.key = key
	return s.losses.lost
}

// LostEvents returns how many events were lost.
func (s *Server) LostEvents() int {
	s.losses.mu.Lock()
	defer s.losses.mu.Unlock()
	return s.losses.lost
}

func (l *losses) option() grpc.ServerOption {
	return grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return handle(srv, &lossyStream{ServerStream: stream, losses: l})
	})
}

type lossyStream struct {
	grpc.ServerStream
	losses *losses
}

// SendMsg sends an answer of a watch without the events that are lost.
func (s *lossyStream) SendMsg(m any) error {
	resp, isWatch := m.(*etcdserverpb.WatchResponse)
	if !isWatch || len(resp.Events) == 0 {
		return s.ServerStream.SendMsg(m)
	}
	// The server may send the same events to other watches, too.
	kept := s.losses.keep(resp.Events)
	if len(kept) == 0 {
		return nil
	}
	return s.ServerStream.SendMsg(&etcdserverpb.WatchResponse{
		Header: resp.Header, WatchId: resp.WatchId, CompactRevision: resp.CompactRevision, Fragment: resp.Fragment, Events: kept,
	})
}

// keep returns the events that are not lost.
func (l *losses) keep(events []*mvccpb.Event) []*mvccpb.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(events), func(ev *mvccpb.Event) bool { return l.key != "" && string(ev.Kv.Key) == l.key })
	l.lost += len(events) - len(kept)
	return kept
}
