package child

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

const (
	// farewell bounds how long requests that are under way may take, once clients know that they must ask another member.
	farewell = 2 * time.Second
	// aware is after how long they know it: a request that crossed the message has arrived by then.
	aware = 100 * time.Millisecond
	// callPause is the pause between two looks at the requests.
	callPause = 5 * time.Millisecond
	// peersFarewell bounds what peers asked.
	peersFarewell = time.Second
)

// stop stops a member gracefully. Clients go first: a write that arrives while the lead is handed over fails.
func (s *etcdServer) stop() {
	if s.grpc != nil { // else it was never ready
		s.dismissClients()
	}
	s.end()
}

// dismissClients asks clients to go elsewhere, and waits for their requests. Watches have no end, and are cut.
func (s *etcdServer) dismissClients() {
	s.client.Deafen()
	s.running.Go(s.grpc.GracefulStop)                                  // Stop ends it
	ctx, cancel := context.WithTimeout(context.Background(), farewell) //nolint:forbidigo // the process stops
	defer cancel()
	s.awaitCalls(ctx)
}

// awaitCalls waits until no requests are under way, and until the last answer is sent: it is not yet when its request
// ends. It returns when ctx ends, too.
func (s *etcdServer) awaitCalls(ctx context.Context) {
	for pause, ended := aware, false; backoff.Sleep(ctx, pause); pause = callPause {
		before := ended
		if ended = s.calls.Load() == 0; ended && before {
			return
		}
	}
}

// end hands over the lead, and ends the server.
func (s *etcdServer) end() {
	if s.grpc != nil {
		s.grpc.Stop()
		_ = s.http.Close() // each closes all connections
	}
	s.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), peersFarewell) //nolint:forbidigo // the same
	defer cancel()
	_ = s.peers.Shutdown(ctx) // those that take longer are cut
	_ = s.peers.Close()
	s.closePorts()
	s.running.Wait()
}

func (s *etcdServer) closePorts() {
	s.client.Close()
	s.peer.Close()
}
