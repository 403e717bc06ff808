package report

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTimestamp(t *testing.T) {
	at := time.Date(2026, 3, 4, 6, 6, 7, 890_123_456, time.FixedZone("", 3600))
	for want, stamp := range map[string]Timestamp{"null": {}, `"2026-03-04T05:06:07.89Z"`: At(at)} {
		text, err := json.Marshal(stamp)
		if err != nil || string(text) != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
		var again Timestamp
		if err := json.Unmarshal(text, &again); err != nil || !again.Equal(stamp.Truncate(time.Millisecond)) {
			t.Errorf("%s: got %v, %v", text, again, err)
		}
	}
}

func TestList(t *testing.T) {
	for want, list := range map[string]List[string]{"[]": nil, `["a","\u003cb\u003e"]`: {"a", "<b>"}} {
		if text, err := json.Marshal(list); err != nil || string(text) != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
	}
}
