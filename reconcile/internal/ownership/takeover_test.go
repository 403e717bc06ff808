package ownership

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

func TestTakeOver(t *testing.T) {
	managed := func(entries string) string { return `{"metadata":{"name":"n","managedFields":[` + entries + `]}}` }
	byCreate := func(fields string) string {
		return `{"manager":"lockstep","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` + fields + `}`
	}
	byApply := func(fields string) string {
		return `{"manager":"lockstep","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` + fields + `}`
	}
	other := `{"manager":"kubectl","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:x":{}}}}`
	tests := []struct {
		name       string
		want, live string
		needed     bool
		fields     string // of the entry after
	}{
		{"nothing was posted", `{"data":{"a":"1"}}`, managed(byApply(`{"f:data":{"f:b":{}}}`)), false, ""},
		{"all that was posted is still wanted", `{"data":{"a":"1"}}`, managed(byCreate(`{"f:data":{".":{},"f:a":{}}}`)), false, ""},
		{"a posted field is dropped", `{"data":{"a":"1"}}`, managed(byCreate(`{"f:data":{".":{},"f:a":{},"f:b":{}}}`) + "," + other), true, `{"f:data":{".":{},"f:a":{},"f:b":{}}}`},
		{"what was applied since is kept", `{"data":{"a":"1"}}`, managed(byCreate(`{"f:data":{"f:b":{}}}`) + "," + byApply(`{"f:data":{"f:a":{}}}`)), true, `{"f:data":{"f:a":{},"f:b":{}}}`},
		{"what was applied since by another version of the kind is kept", `{"data":{"a":"1"}}`, managed(byCreate(`{"f:data":{"f:b":{}}}`) + "," + strings.Replace(byApply(`{"f:data":{"f:a":{}}}`), `"v1"`, `"v2"`, 1)), true, `{"f:data":{"f:a":{},"f:b":{}}}`},
		{"what was written by a subresource was not posted", `{"data":{"a":"1"}}`, managed(strings.Replace(byCreate(`{"f:data":{"f:b":{}}}`), `"fieldsType"`, `"subresource":"status","fieldsType"`, 1)), false, ""},
		{"an item of a list is dropped", `{"ports":[{"port":80}]}`, managed(byCreate(`{"f:ports":{"k:{\"port\":80}":{},"k:{\"port\":81}":{}}}`)), true, `{"f:ports":{"k:{\"port\":80}":{},"k:{\"port\":81}":{}}}`},
		{"all items of a list are still wanted", `{"ports":[{"port":80}],"set":["x"]}`, managed(byCreate(`{"f:ports":{"k:{\"port\":80}":{"f:port":{}}},"f:set":{"v:\"x\"":{}}}`)), false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries, needed := TakeOver(mustObject(t, tt.want), mustObject(t, tt.live))
			if needed != tt.needed {
				t.Fatalf("got %t, want %t", needed, tt.needed)
			}
			if !needed {
				return
			}
			ours := 0
			for _, e := range entries {
				if e.Manager == kube.FieldManager {
					ours++
					if e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1.GetRawString() != tt.fields {
						t.Errorf("got %s %s, want Apply %s", e.Operation, e.FieldsV1.GetRawString(), tt.fields)
					}
				}
			}
			if ours != 1 {
				t.Errorf("got %d entries of ours, want 1", ours)
			}
		})
	}
}
