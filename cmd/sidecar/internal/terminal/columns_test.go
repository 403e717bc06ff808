package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestColumns(t *testing.T) {
	rows := [][]string{{"NODE", "REASON", "WHAT TO DO"}, {"cp-1", "ReleaseTooOld", "upgrade it to release 1.1.0 or a newer one, and wait"}, {"cp-2"}}
	for width, want := range map[int]string{
		0: `NODE  REASON         WHAT TO DO
cp-1  ReleaseTooOld  upgrade it to release 1.1.0 or a newer one, and wait
cp-2
`,
		60: `NODE  REASON         WHAT TO DO
cp-1  ReleaseTooOld  upgrade it to release 1.1.0 or a newer
                     one, and wait
cp-2
`,
		40: `NODE  REASON
    WHAT TO DO
cp-1  ReleaseTooOld
    upgrade it to release 1.1.0 or a
    newer one, and wait
cp-2
`,
	} {
		var out bytes.Buffer
		NewColumns(Screen{Width: width}, rows).Print(&out)
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%d: (-want +got)\n%s", width, diff)
		}
	}
}

// A list that is longer than a line breaks after a comma.
func TestWrap_list(t *testing.T) {
	got := strings.Join(Screen{}.Wrap("kubernetes_controller,consensus_member", 30), "|")
	if want := "kubernetes_controller,|consensus_member"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
