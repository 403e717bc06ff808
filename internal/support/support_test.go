package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/test/selfsigned"
)

// What hangs is missing, with the reason, and holds nothing else up.
func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		defer close(released)
		says := func(text string, err error) func(context.Context) ([]byte, error) {
			return func(context.Context) ([]byte, error) { return []byte(text), err }
		}
		begin := time.Now()
		got := Collect(t.Context(), time.Minute, []Part{
			{Name: "disk", Collect: func(context.Context) ([]byte, error) { <-released; return nil, nil }},
			{Name: "server", Collect: func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, context.Cause(ctx) }},
			{Name: "a.txt", About: "text", Collect: says("Authorization: Bearer abcdef123\n", nil)},
			{Name: "b.gz", Collect: says("lockstep1.text", nil)},
			{Name: "refused", Collect: says("half", errors.New("GET http://me:pass@host/x: refused"))},
			{Name: "large", Collect: says(strings.Repeat("x", maxFile+1), nil)},
		})
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		for i, want := range []File{
			{Name: "disk", Problem: "no answer in time"},
			{Name: "server", Problem: "no answer in time"},
			{Name: "a.txt", About: "text", Bytes: 32, Content: []byte("Authorization: Bearer (removed)\n")},
			{Name: "b.gz", Problem: "unpack: gzip: invalid header"},
			{Name: "refused", Problem: "GET http://me:(removed)@host/x: refused"},
			{Name: "large", Problem: "it has 33554433 bytes; at most 33554432 are collected"},
		} {
			if g := got[i]; g.Name != want.Name || g.About != want.About || g.Problem != want.Problem || g.Bytes != want.Bytes || !bytes.Equal(g.Content, want.Content) {
				t.Errorf("got %+v, want %+v", g, want)
			}
		}
	})
}

func TestArchive(t *testing.T) {
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	packed, err := Archive("lockstep-cp-1", at, []File{
		{Name: "status.json", About: "status", Bytes: 2, Content: []byte("{}")}, {Name: "store.json", Problem: "no answer in time"},
	})
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for in := tar.NewReader(unzipped); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil || header.Mode != 0o600 || !header.ModTime.Equal(at) {
			t.Errorf("%+v: %v", header, err)
		}
		got[header.Name] = string(content)
	}
	list := got["lockstep-cp-1/contents.json"]
	if len(got) != 2 || got["lockstep-cp-1/status.json"] != "{}" || !strings.Contains(list, `"problem": "no answer in time"`) || !strings.Contains(list, `"name": "status.json"`) {
		t.Errorf("got %q", got)
	}
}

func TestRedact(t *testing.T) {
	const key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"
	for text, want := range map[string]string{
		"a " + key + " b": "a (a private key was removed) b",
		`{"k": "` + strings.ReplaceAll(key, "\n", `\n`) + `"}`: `{"k": "(a private key was removed)"}`,
		"-----BEGIN PRIVATE KEY-----\ncut off":                 "(a private key was removed)",
		"LOCKSTEP_TOKEN=lockstep1.abc.d-e_f sidecar run":       "LOCKSTEP_TOKEN=(a token was removed) sidecar run",
		"eyJhbGciOi.eyJpc3Mi.c2ln-x":                           "(a token was removed)",
		"http://u:p@host:1/ and http://host:2/a@b":             "http://u:(removed)@host:1/ and http://host:2/a@b",
		"curl -H 'authorization: basic dTpwYXNz'":              "curl -H 'authorization: basic (removed)'",
		"--password=hunter2 --token-file=/a":                   "--password=(removed) --token-file=/a",
		`requests_total{result="token"} 1`:                     `requests_total{result="token"} 1`,
		"10:02:03 a basic idea":                                "10:02:03 a basic idea",
	} {
		if got := string(Redact([]byte(text))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// A compressed text is as free of secrets, also one whose end is missing.
func TestRedactPacked(t *testing.T) {
	var in bytes.Buffer
	w := gzip.NewWriter(&in)
	for _, line := range []string{"{\"a\": 1}\n", "{\"m\": \"lockstep1.abc\"}\n"} {
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := redactPacked(in.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	out, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); err != nil || string(got) != "{\"a\": 1}\n{\"m\": \"(a token was removed)\"}\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Of a file that has a key too, only the certificate is used.
func TestCertificates(t *testing.T) {
	expires := time.Unix(1e9, 0)
	cert, key := selfsigned.PEM(t, x509.Certificate{
		SerialNumber: big.NewInt(255), Subject: pkix.Name{CommonName: "cp-1"}, DNSNames: []string{"cp-1.example"},
		NotBefore: time.Unix(0, 0), NotAfter: expires,
	})
	file := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(file, []byte(key+cert), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := Certificates([]Source{{Name: file}, {Name: file + ".nope"}, {Name: "inline", Content: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	var got []Certificate
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Subject != "CN=cp-1" || got[0].SerialNumber != "ff" || got[0].Names[0] != "cp-1.example" || !got[0].NotAfter.Equal(expires) ||
		!strings.Contains(got[1].Problem, "no such file") || !strings.Contains(got[2].Problem, "no certificate") {
		t.Errorf("got %s", text)
	}
	if strings.Contains(string(text), "PRIVATE") {
		t.Errorf("the key is there: %s", text)
	}
}
