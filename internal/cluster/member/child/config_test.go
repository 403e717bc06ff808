package child

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// The configuration has the times of the decision, and a member that comes
// back does not disturb a leader (pre-vote).
func TestConfig(t *testing.T) {
	spec := member.Spec{
		Dir: t.TempDir(), Name: "a", PeerURL: "https://127.0.0.1:8089", ClientURL: "https://127.0.0.1:8088",
		InitialCluster: "a=https://127.0.0.1:8089", Token: "t", CAFile: "ca", CertFile: "cert", KeyFile: "key",
	}.WithDefaults()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	cfg, err := serverConfig(spec, newLogger(io.Discard, 0, new(atomic.Bool)))
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.PreVote || !cfg.StrictReconfigCheck {
		t.Error("pre-vote or the strict check of changes is off")
	}
	if cfg.TickMs != 175 || cfg.ElectionTicks != 5 || cfg.BackendBatchInterval != 500*time.Millisecond {
		t.Errorf("got a heartbeat of %d ms, an election timeout of %d heartbeats and commits every %s", cfg.TickMs, cfg.ElectionTicks, cfg.BackendBatchInterval)
	}
	spec.Election = 4 * spec.Heartbeat
	if _, err := serverConfig(spec, zap.NewNop()); err == nil {
		t.Error("an election timeout of four heartbeats is accepted")
	}
}

// The process uses one processor at a time.
func TestMain_oneProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	})
	if code := Main(t.Context(), strings.NewReader(""), io.Discard, io.Discard); code != member.ExitFailed {
		t.Errorf("got exit code %d", code)
	}
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Errorf("got %d processors", got)
	}
}
