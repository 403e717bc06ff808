package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/probe"
)

func TestServe(t *testing.T) {
	hang := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "ok ", strings.SplitN(r.UserAgent(), "/", 2)[0])
	})
	mux.HandleFunc("/unready", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "secret", http.StatusServiceUnavailable)
	})
	mux.Handle("/elsewhere", http.RedirectHandler("http://elsewhere.invalid/", http.StatusFound))
	mux.HandleFunc("/hang", func(http.ResponseWriter, *http.Request) { <-hang })
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(hang)

	cases := []struct {
		question string
		result   probe.Result
		output   string // part of it
	}{
		{server.URL + "/ok", probe.Success, "ok kube-probe"},
		{server.URL + "/unready", probe.Failure, "HTTP probe failed with statuscode: 503"},
		{server.URL + "/elsewhere", probe.Warning, "Probe terminated redirects"},
		{server.URL + "/hang 50ms", probe.Failure, "Timeout"},
		{"http://127.0.0.1:1/", probe.Failure, "connection refused"},
		{"", probe.Unknown, ""},
		{server.URL + "/ok soon", probe.Unknown, ""},
		{server.URL + "/ok 1s 2s", probe.Unknown, ""},
		{"http://[", probe.Unknown, ""},
	}
	var questions []string
	for _, c := range cases {
		questions = append(questions, c.question)
	}
	var out strings.Builder
	if err := serve(strings.NewReader(strings.Join(questions, "\n")+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(strings.NewReader(out.String()))
	for _, c := range cases {
		var got answer
		if err := answers.Decode(&got); err != nil {
			t.Fatalf("%q: %v", c.question, err)
		}
		if got.Result != c.result || !strings.Contains(got.Output, c.output) {
			t.Errorf("%q: got %+v, want result %s and output with %q", c.question, got, c.result, c.output)
		}
		if (got.Error != "") != (c.result == probe.Unknown) {
			t.Errorf("%q: got error %q with result %s", c.question, got.Error, got.Result)
		}
	}
	if err := answers.Decode(&answer{}); err != io.EOF {
		t.Errorf("got more answers than questions")
	}
}
