package etcdtest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// losses makes a server's watches lose events, and its transactions their answers.
type losses struct {
	mu    sync.Mutex // mu guards the fields below
	key   string     // whose events are lost; empty: none
	lost  int
	write *lateWrite // the next one that is late; nil: none
}

// lateWrite is a transaction that etcd executes later. Its client may not wait any more then.
type lateWrite struct {
	key      string
	received chan struct{} // closed when etcd has it
	execute  chan struct{} // closed when etcd executes it
	done     chan struct{} // closed when etcd has executed it
}

// DelayWrite makes the next transaction that puts key late: received is closed when etcd has it, and execute lets etcd
// execute it, and returns when it has. Its answer is lost.
func (s *Server) DelayWrite(key string) (received <-chan struct{}, execute func()) {
	w := &lateWrite{key: key, received: make(chan struct{}), execute: make(chan struct{}), done: make(chan struct{})}
	s.losses.mu.Lock()
	defer s.losses.mu.Unlock()
	s.losses.write = w
	return w.received, sync.OnceFunc(func() {
		close(w.execute)
		select {
		case <-w.received:
			<-w.done
		default:
		}
	})
}

// late returns the delayed write if the request is the one that DelayWrite waits for, and forgets it; else nil.
func (l *losses) late(request any) *lateWrite {
	txn, isTxn := request.(*etcdserverpb.TxnRequest)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isTxn || l.write == nil || !slices.ContainsFunc(txn.Success, func(op *etcdserverpb.RequestOp) bool {
		return bytes.Equal(op.GetRequestPut().GetKey(), []byte(l.write.key))
	}) {
		return nil
	}
	w := l.write
	l.write = nil
	return w
}

// unary is the option that makes writes late.
func (l *losses) unary() grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		w := l.late(req)
		if w == nil {
			return handle(ctx, req)
		}
		close(w.received)
		<-w.execute
		_, err := handle(context.WithoutCancel(ctx), req)
		close(w.done)
		if err == nil {
			err = status.Error(codes.Unavailable, "the answer is lost")
		}
		return nil, err
	})
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

// option is the option that loses events.
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
