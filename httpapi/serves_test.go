package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The answer of /readyz is one fact: /status and the metric show it too, in every state, with
// and without a kube-apiserver that is asked.
func TestServes(t *testing.T) {
	servers := map[string]APIServer{
		"":        {},
		"ready":   {Enabled: true, Ready: true, Since: epochTime.Add(time.Hour)},
		"down":    {Enabled: true, Message: "[-]etcd failed", Since: epochTime.Add(time.Hour)},
		"refused": {Enabled: true, Message: "401 Unauthorized", Refused: true, Since: epochTime.Add(time.Hour)},
	}
	for _, st := range states(t) {
		for name, api := range servers {
			snap := st.snap
			snap.APIServer = api
			f := newFixture(t, snap)
			want := get(t, f.Handler(), "/readyz").Code == http.StatusOK
			shown := NewStatus(snap).Ready
			if Serves(snap) != want || shown.Serves != want {
				t.Errorf("%s, %s: /readyz passes: %t, Serves: %t, /status: %t", st.name, name, want, Serves(snap), shown.Serves)
			}
			if shown.ServesReason == "" || shown.ServesMessage == "" {
				t.Errorf("%s, %s: got %+v", st.name, name, shown)
			}
		}
	}
}

func TestServes_why(t *testing.T) {
	turn := time.Date(2026, 1, 1, 14, 2, 0, 0, time.UTC)
	snap := Snapshot{Gate: Gate{Verdict: protocol.Verdict{Ready: true, Reason: protocol.Ready, Message: "fits"}, Since: epochTime}}
	for _, tt := range []struct {
		api             APIServer
		reason, message string
	}{
		{APIServer{}, "Ready", "fits"},
		{APIServer{Enabled: true}, "APIServerNotReady", "its kube-apiserver counts as not ready: it was not asked yet since this sidecar started"},
		{APIServer{Enabled: true, Turn: turn}, "APIServerNotReady", "its kube-apiserver counts as not ready since 2026-01-01T14:02:00Z: this node has a turn, whose work may restart it"},
		{APIServer{Enabled: true, Turn: turn, Message: "refused"}, "APIServerNotReady", "its kube-apiserver is not ready, in this node's turn, whose work may restart it: refused"},
		{APIServer{Enabled: true, Turn: turn, TurnOver: true}, "APIServerNotReady", "its kube-apiserver counts as not ready: it was not asked yet since the work of this node's turn was done"},
		{APIServer{Enabled: true, Turn: turn, TurnOver: true, Message: "refused"}, "APIServerNotReady", "its kube-apiserver is not ready: refused"},
		{APIServer{Enabled: true, Message: "[-]etcd failed"}, "APIServerNotReady", "its kube-apiserver is not ready: [-]etcd failed"},
		{APIServer{Enabled: true, Message: "401 Unauthorized", Refused: true}, "APIRefused",
			"its kube-apiserver answers, and rejects the credentials of the kubeconfig, so whether it is ready is not known: 401 Unauthorized"},
	} {
		snap.APIServer = tt.api
		if got := NewStatus(snap).Ready; got.ServesReason != tt.reason || got.ServesMessage != tt.message || !got.Ready {
			t.Errorf("got %+v, want %s: %s", got, tt.reason, tt.message)
		}
	}
}
