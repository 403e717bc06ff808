package apiserver

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

func TestRefuses(t *testing.T) {
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "shutting down", http.StatusInternalServerError)
	}))
	t.Cleanup(answering.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its backlog accepts, as with a paused process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	proxy, err := url.Parse(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		client http.Client
		url    string
		want   bool
	}{
		"nothing listens":    {http.Client{}, gone.URL, true},
		"it answers 500":     {http.Client{}, answering.URL, false},
		"it does not answer": {http.Client{Timeout: 100 * time.Millisecond}, "http://" + silent.Addr().String(), false},
		"no such host":       {http.Client{}, "http://no-such-host.invalid", false},
		"a proxy is missing": {http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}, "http://10.0.0.1", false},
		"not a URL":          {http.Client{}, "://", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refuses(t.Context(), &tc.client, tc.url); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
			tc.client.CloseIdleConnections()
		})
	}
}
