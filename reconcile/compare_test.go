package reconcile

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// mustObject reads an object as it comes from the API.
func mustObject(t *testing.T, text string) *kube.Object {
	t.Helper()
	var content map[string]any
	obj := &kube.Object{}
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"apiVersion": "v1", "kind": "Thing"} {
		if _, has := content[field]; !has {
			content[field] = value
		}
	}
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestInPlace(t *testing.T) {
	applied := func(fields string) string {
		return `"managedFields":[{"manager":"lockstep","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":` + fields + `}]`
	}
	tests := []struct {
		name       string
		want, live string
		inPlace    bool
	}{
		{"equal", `{"spec":{"a":1,"b":["x"]}}`, `{"spec":{"a":1,"b":["x"]}}`, true},
		{"the live one has more", `{"spec":{"a":1}}`, `{"spec":{"a":1,"d":"default"},"status":{"x":1}}`, true},
		{"more labels and annotations", `{"metadata":{"name":"n","labels":{"a":"b"}}}`, `{"metadata":{"name":"n","uid":"u","labels":{"a":"b","c":"d"},"annotations":{"x":"y"}}}`, true},
		{"defaults within the items of a list", `{"spec":{"ports":[{"port":80}]}}`, `{"spec":{"ports":[{"port":80,"protocol":"TCP"}]}}`, true},
		{"1 and 1.0", `{"spec":{"a":1}}`, `{"spec":{"a":1.0}}`, true},
		{"another value", `{"spec":{"a":1}}`, `{"spec":{"a":2}}`, false},
		{"another type", `{"spec":{"a":1}}`, `{"spec":{"a":"1"}}`, false},
		{"a map for a scalar", `{"spec":{"a":{"b":1}}}`, `{"spec":{"a":"1"}}`, false},
		{"a scalar for a map", `{"spec":{"a":"1"}}`, `{"spec":{"a":{"b":1}}}`, false},
		{"a field is gone", `{"spec":{"a":1,"b":2}}`, `{"spec":{"a":1}}`, false},
		{"a label is gone", `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{}}`, false},
		{"all of the spec is gone", `{"spec":{"a":1}}`, `{}`, false},
		{"an item more", `{"rules":[1]}`, `{"rules":[1,2]}`, false},
		{"another order", `{"rules":[1,2]}`, `{"rules":[2,1]}`, false},
		{"false that the server does not store", `{"globalDefault":false}`, `{"metadata":{` + applied(`{"f:globalDefault":{}}`) + `}}`, true},
		{"false that somebody took away", `{"mount":false}`, `{"metadata":{` + applied(`{"f:other":{}}`) + `}}`, false},
		{"false, and nothing was ever applied", `{"mount":false}`, `{"metadata":{}}`, false},
		{"true is never dropped", `{"globalDefault":true}`, `{"metadata":{` + applied(`{"f:globalDefault":{}}`) + `}}`, false},
		{"an empty map that the server does not store", `{"spec":{"selector":{}}}`, `{"spec":{"x":1},"metadata":{` + applied(`{"f:spec":{"f:selector":{}}}`) + `}}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := inPlace(mustObject(t, tt.want), mustObject(t, tt.live)); got != tt.inPlace {
				t.Errorf("got %t, want %t", got, tt.inPlace)
			}
		})
	}
}

func TestTakeOver(t *testing.T) {
	managed := func(entries string) string { return `{"metadata":{"name":"n","managedFields":[` + entries + `]}}` }
	posted := func(fields string) string {
		return `{"manager":"lockstep","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` + fields + `}`
	}
	applied := func(fields string) string {
		return `{"manager":"lockstep","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` + fields + `}`
	}
	other := `{"manager":"kubectl","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:x":{}}}}`
	tests := []struct {
		name       string
		want, live string
		needed     bool
		fields     string // of the entry after
	}{
		{"nothing was posted", `{"data":{"a":"1"}}`, managed(applied(`{"f:data":{"f:b":{}}}`)), false, ""},
		{"all that was posted is still wanted", `{"data":{"a":"1"}}`, managed(posted(`{"f:data":{".":{},"f:a":{}}}`)), false, ""},
		{"a posted field is dropped", `{"data":{"a":"1"}}`, managed(posted(`{"f:data":{".":{},"f:a":{},"f:b":{}}}`) + "," + other), true, `{"f:data":{".":{},"f:a":{},"f:b":{}}}`},
		{"what was applied since is kept", `{"data":{"a":"1"}}`, managed(posted(`{"f:data":{"f:b":{}}}`) + "," + applied(`{"f:data":{"f:a":{}}}`)), true, `{"f:data":{"f:a":{},"f:b":{}}}`},
		{"an item of a list is dropped", `{"ports":[{"port":80}]}`, managed(posted(`{"f:ports":{"k:{\"port\":80}":{},"k:{\"port\":81}":{}}}`)), true, `{"f:ports":{"k:{\"port\":80}":{},"k:{\"port\":81}":{}}}`},
		{"all items of a list are still wanted", `{"ports":[{"port":80}],"set":["x"]}`, managed(posted(`{"f:ports":{"k:{\"port\":80}":{"f:port":{}}},"f:set":{"v:\"x\"":{}}}`)), false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries, needed := takeOver(mustObject(t, tt.want), mustObject(t, tt.live))
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
