package ownership

import "testing"

func TestInPlace(t *testing.T) {
	byApply := func(fields string) string {
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
		{"a field is missing", `{"spec":{"a":1,"b":2}}`, `{"spec":{"a":1}}`, false},
		{"a label is missing", `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{}}`, false},
		{"the whole spec is missing", `{"spec":{"a":1}}`, `{}`, false},
		{"an item more", `{"rules":[1]}`, `{"rules":[1,2]}`, false},
		{"another order", `{"rules":[1,2]}`, `{"rules":[2,1]}`, false},
		{"false that the server does not store", `{"globalDefault":false}`, `{"metadata":{` + byApply(`{"f:globalDefault":{}}`) + `}}`, true},
		{"false that another manager removed", `{"mount":false}`, `{"metadata":{` + byApply(`{"f:other":{}}`) + `}}`, false},
		{"false, and nothing was ever applied", `{"mount":false}`, `{"metadata":{}}`, false},
		{"true is never dropped", `{"globalDefault":true}`, `{"metadata":{` + byApply(`{"f:globalDefault":{}}`) + `}}`, false},
		{"an empty map that the server does not store", `{"spec":{"selector":{}}}`, `{"spec":{"x":1},"metadata":{` + byApply(`{"f:spec":{"f:selector":{}}}`) + `}}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := InPlace(mustObject(t, tt.want), mustObject(t, tt.live)); got != tt.inPlace {
				t.Errorf("got %t, want %t", got, tt.inPlace)
			}
		})
	}
}
