package status

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/logs"
)

// A registration that is withdrawn while the status is read for it does not open the
// gate, not even for a moment.
func TestGate_withdrawnDuringTheRead(t *testing.T) {
	var log logs.Buffer
	w := newWorldWithLog(t, slog.New(slog.NewTextHandler(&log, nil)))
	w.put("1.1.0", "1.0.0")
	w.await(protocol.NotRegistered)
	w.proxy.Cut(etcdtest.BlackholeResponses)
	w.register()
	w.awaitVerdict("registered, status not read", statusNotRead)
	w.registration.Set(protocol.Registration{})
	w.proxy.Restore()
	w.register() // the gate reads again, so it has used the first answer by then
	w.await(protocol.Ready)
	if n := strings.Count(log.String(), "ready=true"); n != 1 {
		t.Errorf("the gate opened %d times, want once:\n%s", n, log.String())
	}
}
