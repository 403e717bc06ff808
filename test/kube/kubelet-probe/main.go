// Command kubelet-probe probes HTTP endpoints as the kubelet does, with the
// kubelet's own prober, so that a test of a readiness gate rests on what a
// kubelet will really see.
//
// It reads one question a line, a URL and optionally a timeout (default 1s, as
// in a Pod), and answers each with one line of JSON, in order:
//
//	$ echo http://127.0.0.1:8086/readyz 1s | kubelet-probe
//	{"url":"http://127.0.0.1:8086/readyz","result":"success","output":"ok"}
//
// The result is success, warning (a redirect to another host, which counts as
// success), failure, or unknown (the question makes no sense; "error" says why).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/kubernetes/pkg/probe"
	probehttp "k8s.io/kubernetes/pkg/probe/http"
)

// defaultTimeout is the default of a Pod's timeoutSeconds.
const defaultTimeout = time.Second

// answer is one line of output.
type answer struct {
	URL    string       `json:"url"`
	Result probe.Result `json:"result"`
	Output string       `json:"output"`
	Error  string       `json:"error,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-probe:", err)
		os.Exit(1)
	}
}

// serve answers questions until in ends.
func serve(in io.Reader, out io.Writer) error {
	// The kubelet, too, follows redirects on the same host only.
	prober := probehttp.New(false)
	answers := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := answers.Encode(ask(prober, lines.Text())); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	return nil
}

func ask(prober probehttp.Prober, line string) answer {
	target, timeout, err := parseQuestion(line)
	if err != nil {
		return answer{URL: line, Result: probe.Unknown, Error: err.Error()}
	}
	a := answer{URL: target.String()}
	req, err := probehttp.NewProbeRequest(target, nil)
	if err == nil {
		a.Result, a.Output, err = prober.Probe(req, timeout)
	}
	if err != nil {
		a.Result, a.Error = probe.Unknown, err.Error()
	}
	return a
}

func parseQuestion(line string) (*url.URL, time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) < 1 || len(fields) > 2 {
		return nil, 0, fmt.Errorf("%q: want a URL and optionally a timeout", line)
	}
	target, err := url.Parse(fields[0])
	if err != nil {
		return nil, 0, err
	}
	if len(fields) == 1 {
		return target, defaultTimeout, nil
	}
	timeout, err := time.ParseDuration(fields[1])
	return target, timeout, err
}
