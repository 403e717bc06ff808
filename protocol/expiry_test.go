package protocol

import (
	"testing"
	"time"
)

func TestOverdue(t *testing.T) {
	for _, tc := range []struct {
		unconfirmed, after time.Duration
		want               bool
	}{
		{0, 0, false},
		{time.Hour, 0, false},
		{time.Hour, -time.Second, false},
		{29 * time.Second, time.Minute, false},
		{30 * time.Second, time.Minute, true},
		{time.Hour, time.Minute, true},
	} {
		if got := Overdue(tc.unconfirmed, tc.after); got != tc.want {
			t.Errorf("Overdue(%s, %s): got %t, want %t", tc.unconfirmed, tc.after, got, tc.want)
		}
	}
}

// A sidecar has closed its gate before its record expires, as long as neither of the two
// clocks runs twice as fast as the other.
func TestOverdue_beforeTheRecordExpires(t *testing.T) {
	const after = time.Minute
	for gone := time.Duration(0); gone < 2*after; gone += time.Second / 2 {
		r := controller("n", "1.0.0").gone(after, gone)
		for _, unconfirmed := range []time.Duration{gone/2 + 1, gone, 2 * gone} {
			if r.Expired() && !Overdue(unconfirmed, after) {
				t.Errorf("gone for %s: expired, and not fenced after %s", gone, unconfirmed)
			}
		}
	}
}

// The records that noderecord.DeletionsDue returns block nothing, so their deletion changes no decision.
func TestNext_withoutDeletedRecords(t *testing.T) {
	gone := controller("gone", "0.9.0").gone(time.Minute, time.Minute)
	gone.Node.Ephemeral = true
	newer := controller("newer", "1.2.0").gone(time.Minute, time.Minute)
	newer.Node.Ephemeral = true
	for _, s := range []Status{doneStatus("0.9.0"), workingStatus(), targetStatus()} {
		with, without := given(presentStatus(s), gone, newer), given(presentStatus(s))
		a, b := Next(with), Next(without)
		if a.Kind != b.Kind || a.Rule != b.Rule || len(a.Blockers) != len(b.Blockers) {
			t.Errorf("%s: got %s with the records and %s without", s, a, b)
		}
	}
}
