package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/lockstep-dev/lockstep"
)

// Messages of client-go are in the sidecar's log, in its form.
func TestRunSidecar_klog(t *testing.T) {
	var log bytes.Buffer
	t.Cleanup(klog.ClearLogger)
	var option *lockstep.OptionError
	err := runSidecar(t.Context(), lockstep.Options{NodeID: "NOT VALID"}, slog.New(slog.NewJSONHandler(&log, nil)))
	if err == nil || errors.As(err, &option) {
		t.Errorf("got %v, want the errors by flag", err)
	}
	klog.Errorf("refreshing credentials: %v", errors.New("exec: not found"))
	if got, want := log.String(), `"level":"ERROR"`; !strings.Contains(got, want) || !strings.Contains(got, `"msg":"refreshing credentials: exec: not found"`) ||
		!strings.Contains(got, `"worker":"client-go"`) {
		t.Errorf("got %q", got)
	}
}
