package httpapi

import (
	"encoding/json"
	"testing"
	"time"
)

// Every field is always present, and a list is never null.
func TestServiceReports(t *testing.T) {
	since := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for want, services := range map[string][]Service{
		"[]": nil,
		`[{"name":"","role":"","driver":"","state":"","ready":false,"since":null,"restarts":0,"lastExit":"","problem":"","lastLines":[],"required":true,"file":"","changed":null}]`: {{}},
		`[{"name":"a","role":"kubernetes_controller","driver":"process","state":"Running","ready":true,"since":"2026-11-22T10:00:00Z",` +
			`"restarts":2,"lastExit":"exit status 1","problem":"refused","lastLines":[],"required":true,"file":"","changed":null}]`: {{
			Name: "a", Role: "kubernetes_controller", Driver: "process", State: "Running", Ready: true, Since: since,
			Restarts: 2, LastExit: "exit status 1", Problem: "refused", Lines: []string{"it is ready, so this stays in its log"},
		}},
		`[{"name":"a","role":"","driver":"","state":"BackOff","ready":false,"since":null,"restarts":0,"lastExit":"","problem":"","lastLines":["x"],"required":true,"file":"","changed":null}]`: {{
			Name: "a", State: "BackOff", Lines: []string{"x"},
		}},
	} {
		got, err := json.Marshal(ServiceReports(services))
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
