package ownership

import (
	"slices"
	"testing"
)

func TestChangeSince(t *testing.T) {
	const (
		ours   = `{"manager":"lockstep","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{"f:x":{},"f:y":{}}}}`
		less   = `{"manager":"lockstep","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{"f:y":{}}}}`
		status = `{"manager":"kubelet","operation":"Update","subresource":"status","time":"2026-01-01T00:00:03Z","fieldsV1":{"f:status":{}}}`
		other  = `{"manager":"other","operation":"Update","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:data":{"f:x":{}}}}`
		newest = `{"manager":"newest","operation":"Update","time":"2026-01-01T00:00:02Z","fieldsV1":{"f:data":{"f:z":{}}}}`
	)
	managed := func(entries string) string { return `{"metadata":{"name":"a","managedFields":[` + entries + `]}}` }
	own := Own(mustObject(t, managed(ours)))
	for _, tt := range []struct {
		name    string
		entries string
		want    Change
	}{
		{"the manager that took the field, not the one that wrote last", newest + "," + other + "," + less, Change{"other", []string{".data.x"}}},
		{"the manager that wrote last, if the field was removed", status + "," + newest + "," + less, Change{"newest", []string{".data.x"}}},
		{"no manager is left in the record", less, Change{"", []string{".data.x"}}},
		{"nothing of ours was changed", other + "," + ours, Change{"other", nil}},
		{"all records of fields were removed", "", Change{"", []string{".data.x", ".data.y"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ChangeSince(own, mustObject(t, managed(tt.entries)))
			if got.Manager != tt.want.Manager || !slices.Equal(got.Fields, tt.want.Fields) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("a deletion leaves no trace", func(t *testing.T) {
		if got := ChangeSince(own, nil); got.Manager != "" || len(got.Fields) != 0 {
			t.Errorf("got %+v, want no one", got)
		}
	})
}
