package main

import (
	"strings"
	"testing"
	"time"
)

func ms(values ...int) []time.Duration {
	var out []time.Duration
	for _, v := range values {
		out = append(out, time.Duration(v)*time.Millisecond)
	}
	return out
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 0, 100)
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i))
	}
	for _, c := range []struct {
		times []time.Duration
		p     float64
		want  time.Duration
	}{
		{nil, 50, 0},
		{ms(7), 50, 7 * time.Millisecond},
		{ms(3, 1, 2), 50, 2 * time.Millisecond},
		{ms(4, 3, 1, 2), 50, 2 * time.Millisecond},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{ms(1, 2, 3), 99, 3 * time.Millisecond},
	} {
		if got := percentile(c.times, c.p); got != c.want {
			t.Errorf("percentile(%v, %v): got %s, want %s", c.times, c.p, got, c.want)
		}
	}
}

func TestMet(t *testing.T) {
	times, slow := ms(1, 2, 3), map[string][]time.Duration{peerOrigin: ms(20)}
	for _, c := range []struct {
		name string
		row  row
		want bool
	}{
		{"all in time", row{times: times, bar: bar{p50: 3 * time.Millisecond, max: 4 * time.Millisecond}}, true},
		{"a limit is not reached by equality", row{times: times, bar: bar{p50: 2 * time.Millisecond}}, false},
		{"one too slow", row{times: times, bar: bar{max: 3 * time.Millisecond}}, false},
		{"fast enough beside a peer", row{times: times, peers: slow, bar: bar{faster: map[string]float64{peerOrigin: 10}}}, true},
		{"not fast enough beside a peer", row{times: times, peers: slow, bar: bar{faster: map[string]float64{peerOrigin: 11}}}, false},
		{"a peer that was not measured", row{times: times, bar: bar{faster: map[string]float64{peerOrigin: 11}}}, true},
	} {
		if got := c.row.met(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPrint(t *testing.T) {
	r := newReport()
	r.measured("a case", bar{p99: 2 * time.Second}, ms(1500))
	r.peer("a case", peerOrigin, ms(15000)...)
	r.fact("requests", "3", "0", false)
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{"| a case | 1 | 1.5 s | 1.5 s | 1.5 s | p99 < 2 s | yes | 15 s (n=1)", "| 10 ", "| requests | 3        | 0   | NO  |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant a line with %q", out.String(), want)
		}
	}
}
