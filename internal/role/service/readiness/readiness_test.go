package readiness

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = time.Minute

func httpGet(t *testing.T, get HTTPGet) error {
	t.Helper()
	return New(Config{HTTPGet: &get, Timeout: limit}, nil)(t.Context())
}

func TestHTTPGet(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscan(r.PathValue("code"), &code)
		w.WriteHeader(code)
		fmt.Fprint(w, "because\n", strings.Repeat("x", 100_000))
	})
	mux.HandleFunc("/same", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/status/500", http.StatusFound) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, strings.Repeat("[+]poststarthook ok\n", 1000), "[-]etcd failed: reason withheld\n[+]log ok\nreadyz check failed\n")
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/other", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/status/200": "", "/status/204": "", "/status/304": "", "/status/399": "",
		"/status/400": "HTTP status 400: \"because", "/status/401": "HTTP status 401", "/status/503": "HTTP status 503",
		"/same": "HTTP status 500", "/round": "stopped after 10 redirects", "/other": "", "/missing": "HTTP status 404",
		"/readyz": "HTTP status 500: [-]etcd failed: reason withheld",
	} {
		err := httpGet(t, HTTPGet{URL: server.URL + path})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the error has %d bytes", path, len(err.Error()))
		}
	}
}

func TestHTTPGet_certificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail, as intended
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := httpGet(t, HTTPGet{URL: server.URL}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	if err := httpGet(t, HTTPGet{URL: server.URL, InsecureSkipVerify: true}); err != nil {
		t.Error(err)
	}
	if err := httpGet(t, HTTPGet{URL: server.URL, CAFile: file}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for text, ok := range map[string]bool{
		"no PEM": false,
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})): true,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := httpGet(t, HTTPGet{URL: server.URL, CAFile: file}); (err == nil) != ok {
			t.Errorf("%.10s: got %v", text, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	err := New(Config{HTTPGet: &HTTPGet{URL: server.URL}, Timeout: 20 * time.Millisecond}, nil)(t.Context())
	if err == nil || err.Error() != "no answer within 20ms" || Refused(err) {
		t.Errorf("got %v", err)
	}
}

func TestTCPSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	probe := New(Config{TCPSocket: &TCPSocket{Address: l.Addr().String()}, Timeout: limit}, nil)
	if err := probe(t.Context()); err != nil {
		t.Error(err)
	}
	get := New(Config{HTTPGet: &HTTPGet{URL: "http://" + l.Addr().String()}, Timeout: limit}, nil)
	l.Close()
	for _, probe := range []Probe{probe, get} {
		if err := probe(t.Context()); err == nil || !Refused(err) {
			t.Errorf("got %v", err)
		}
	}
}

func TestExec(t *testing.T) {
	want := errors.New("exit status 1")
	run := func(_ context.Context, command []string) error {
		if slices.Equal(command, []string{"/x", "y"}) {
			return want
		}
		return nil
	}
	if err := New(Config{Exec: &Exec{Command: []string{"/x", "y"}}, Timeout: limit}, run)(t.Context()); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	if err := New(Config{Exec: &Exec{Command: []string{"/z"}}, Timeout: limit}, run)(t.Context()); err != nil {
		t.Error(err)
	}
	if err := New(Config{Timeout: limit}, run)(t.Context()); err == nil {
		t.Error("a Config without a probe is ready")
	}
}

// The thresholds and the period are those of a kubelet; until the first success probes are more
// frequent.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var story []string
		tell := func(text string) { story = append(story, fmt.Sprintf("%.2f %s", time.Since(begin).Seconds(), text)) }
		ctx, cancel := context.WithCancel(t.Context())
		results := []string{"no", "", "no", "", "", "", "no", "no", "", "no", "no", "no", "other", "", ""}
		probe := func(context.Context) error {
			if len(results) == 0 {
				cancel()
				return nil
			}
			result := results[0]
			results = results[1:]
			tell("probe " + result)
			if result != "" {
				return errors.New(result)
			}
			return nil
		}
		Follow(ctx, Config{InitialDelay: time.Second, Period: 10 * time.Second, SuccessThreshold: 2, FailureThreshold: 3}, probe, func(r Result) {
			tell(fmt.Sprintf("ready %t %s", r.Ready, r.Problem))
		})
		want := []string{
			"1.00 probe no", "1.00 ready false no", "1.05 probe ", "1.15 probe no", "1.35 probe ", "1.55 probe ", "1.55 ready true ",
			"11.55 probe ", "21.55 probe no", "31.55 probe no", "41.55 probe ", "51.55 probe no", "61.55 probe no", "71.55 probe no", "71.55 ready false no",
			"81.55 probe other", "81.55 ready false other", "91.55 probe ", "101.55 probe ", "101.55 ready true ",
		}
		if !slices.Equal(story, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(story, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A slow probe delays the next one by no more than it takes, and none is reported after the end.
func TestFollow_slowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin, count := time.Now(), 0
		Follow(ctx, Config{Period: time.Second, SuccessThreshold: 1, FailureThreshold: 1}, func(context.Context) error {
			count++
			<-time.After(3 * time.Second)
			if count == 5 {
				cancel()
				return errors.New("cut off")
			}
			return nil
		}, func(r Result) {
			if !r.Ready {
				t.Errorf("got %+v after the end", r)
			}
		})
		if got := time.Since(begin); got != 15*time.Second {
			t.Errorf("got %s", got)
		}
	})
}

// A service is started when no program listens where its probe goes. Otherwise people learn which.
func TestAwaitFree(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address := server.Listener.Addr().String()
	byHTTP := &Config{HTTPGet: &HTTPGet{URL: server.URL + "/readyz"}, Timeout: limit}
	byTCP := &Config{TCPSocket: &TCPSocket{Address: address}, Timeout: limit}
	want := fmt.Sprintf("another program answers at %s before \"api\" was started: process %d (", address, os.Getpid())
	for _, c := range []*Config{byHTTP, byTCP} {
		if err := AwaitFree(t.Context(), "api", c); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "); stop it") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, c := range []*Config{nil, {Exec: &Exec{Command: []string{"/bin/true"}}}} {
		if err := AwaitFree(t.Context(), "api", c); err != nil {
			t.Errorf("there is nothing to connect to: got %v", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := AwaitFree(ended, "api", byTCP); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	server.Close()
	for _, c := range []*Config{byHTTP, byTCP} {
		if err := AwaitFree(t.Context(), "api", c); err != nil {
			t.Errorf("connections are refused: got %v", err)
		}
	}
	for url, want := range map[string]string{"https://[::1]:6443/readyz": "[::1]:6443", "https://a": "a:https", "http://127.0.0.1/x": "127.0.0.1:http"} {
		if got := (&Config{HTTPGet: &HTTPGet{URL: url}}).Address(); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

// The query of a probe may contain a token: no error shows it, also not after a redirect.
func TestHTTPGet_hidesQuery(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop?token=secret", http.StatusFound)
		}
	}))
	defer server.Close()
	for _, target := range []string{"http://user:secret@127.0.0.1:1/readyz?token=secret", server.URL + "/loop?token=secret"} {
		err := (&HTTPGet{URL: target}).probe(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "?...") {
			t.Errorf("%s: got %v", target, err)
		}
	}
}
