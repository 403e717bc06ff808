package apiserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The answer of kube-apiserver lists dozens of checks that passed. Only failed ones are shown.
func TestAsk(t *testing.T) {
	for want, answer := range map[string]struct {
		code int
		body string
	}{
		"":                                {http.StatusOK, "ok"},
		"[-]etcd failed: reason withheld": {http.StatusInternalServerError, "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\nreadyz check failed\n"},
		"401 Unauthorized: who are you":   {http.StatusUnauthorized, "who are you\n"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answer.code)
			fmt.Fprint(w, answer.body)
		}))
		t.Cleanup(server.Close)
		if got := ask(t.Context(), server.Client(), server.URL); got != want {
			t.Errorf("%d %q: got %q, want %q", answer.code, answer.body, got, want)
		}
	}
}
