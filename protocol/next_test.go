package protocol

import "testing"

// nextCase is a decision: the facts, and the step as it prints.
type nextCase struct {
	name string
	in   Input
	want string
}

func runNext(t *testing.T, cases []nextCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := Next(tc.in).String(); got != tc.want {
				t.Errorf("Next:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}
