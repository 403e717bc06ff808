package reconcile_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/test/logs"
)

// wantHidden fails if text has the value in any form in which an API or a
// library might write it.
func wantHidden(t *testing.T, where, text, value string) {
	t.Helper()
	forms := []string{value, hex.EncodeToString([]byte(value))}
	for _, prefix := range []string{"", "x", "xx"} { // base64 of the value within something longer
		encoded := base64.StdEncoding.EncodeToString([]byte(prefix + value))
		forms = append(forms, strings.TrimRight(encoded, "=")[len(prefix)*2:len(encoded)-4])
	}
	for _, form := range forms {
		if strings.Contains(text, form) {
			t.Errorf("%s shows a Secret's value as %q:\n%s", where, form, text)
		}
	}
}

// A Secret of the bundle is applied, and what it holds is never shown, however
// it fails.
func TestSecretsStayHidden(t *testing.T) {
	const value = "correct-horse-battery-staple"
	encoded := base64.StdEncoding.EncodeToString([]byte(value))
	r := newRig(t)
	log := &logs.Buffer{} // all that is logged, at every level
	r.cfg.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	r.restart()
	secret := func(name, more string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: NS}\n%s\n", name, more)
	}
	tests := []struct{ name, manifest string }{
		{"of a type that wants JSON", secret("a", "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: "+value+"}")},
		{"that is not base64", secret("b", "data: {x: '"+value+"'}")},
		{"that has a key which is none", secret("c", "data: {'"+value+"/"+encoded+"': "+encoded+"}")},
		{"of another type than the API's", secret("d", "data: ["+encoded+"]")},
		{"with an unknown field", secret("e", "password: "+value)},
		{"with a label that is too long", strings.Replace(secret("f", "stringData: {x: "+value+"}"), "namespace", "labels: {a: "+strings.Repeat(value, 4)+"}, namespace", 1)},
		{"in a missing namespace", strings.Replace(secret("g", "stringData: {x: "+value+"}"), "NS", "NS-nowhere", 1)},
		{"that the admission refuses", secret("h", "data: {refuse: "+encoded+"}")},
		{"that may not change", strings.Replace(secret("i", "immutable: true\nstringData: {x: "+value+"}"), "namespace", "annotations: {lockstep.dev/recreate: disabled}, namespace", 1)},
	}
	good := secret("good", "stringData: {x: "+value+"}")
	before := strings.Replace(tests[8].manifest, "x: "+value, "x: "+value+"-before", 1)
	r.use("1.0.0", good, before)
	r.mustComplete()

	t.Run("a valid one is applied", func(t *testing.T) {
		data, _ := r.get(secrets, r.ns, "good").Object["data"].(map[string]any)
		if data["x"] != encoded {
			t.Errorf("got %v", data)
		}
	})
	t.Run("one that is refused says where and why, without its value", func(t *testing.T) {
		refuse := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: NS-no}\nspec: {failurePolicy: Fail, matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}, resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}, validations: [{expression: '!has(object.data) || !(\"refuse\" in object.data)', messageExpression: '\"no: \" + string(object.data[\"refuse\"])'}]}\n"
		binding := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: NS-no}\nspec: {policyName: NS-no, validationActions: [Deny]}\n"
		r.use("1.0.1", good, refuse, binding, before)
		r.mustComplete()
		r.awaitRefusal(encoded)
		manifests := []string{good, refuse, binding}
		for _, tt := range tests {
			manifests = append(manifests, tt.manifest)
		}
		r.use("1.0.2", manifests...)
		out, err := r.pass()
		if err != nil || out.Complete {
			t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
		}
		for i, tt := range tests {
			name := fmt.Sprintf(`Secret "%s/%c"`, r.ns, 'a'+i)
			if i == 6 {
				name = fmt.Sprintf(`Secret "%s-nowhere/g"`, r.ns)
			}
			if !slices.ContainsFunc(r.report().Failures, func(f report.Failure) bool { return f.Object == name }) {
				t.Errorf("%s: no failure of %s: %+v", tt.name, name, r.report().Failures)
			}
		}
		r.wantNothingShown(log, value)
	})
	t.Run("nor do an API that fails, an answer that is lost, and a removal that is refused", func(t *testing.T) {
		r.use("1.0.3", good, secret("j", "stringData: {x: "+value+"}"))
		for name, fault := range map[string]func(*http.Request, http.RoundTripper) (*http.Response, error){
			"500": func(*http.Request, http.RoundTripper) (*http.Response, error) {
				return answer(500, "InternalError", value), nil
			},
			"lost": loseAnswer,
			"422": func(*http.Request, http.RoundTripper) (*http.Response, error) {
				return answer(422, "Invalid", "immutable: "+value), nil
			},
		} {
			r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
				if req.Method != http.MethodGet && strings.Contains(req.URL.Path, "/secrets") {
					return fault(req, next)
				}
				return next.RoundTrip(req)
			})
			if _, err := r.pass(); err != nil {
				wantHidden(t, "an error after "+name, err.Error(), value)
			}
			r.wantNothingShown(log, value)
		}
	})
}

// awaitRefusal waits until the policy is enforced.
func (r *rig) awaitRefusal(encoded string) {
	r.t.Helper()
	cluster := r.api.Resource(secrets).Namespace(r.ns)
	await(r.t, "the policy to be enforced", func() error {
		obj := mustManifest(r.t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"probe"},"data":{"refuse":%q}}`, encoded))
		_, err := cluster.Create(r.t.Context(), obj, dryRun)
		if err == nil {
			return fmt.Errorf("a Secret passes")
		}
		return nil
	})
}

// wantNothingShown looks at all that people see of a pass.
func (r *rig) wantNothingShown(log *logs.Buffer, value string) {
	r.t.Helper()
	t, ok := r.t.(*testing.T)
	if !ok {
		r.t.Fatal("want a test")
	}
	report, err := json.Marshal(r.report())
	if err != nil {
		t.Fatal(err)
	}
	wantHidden(t, "the report", string(report), value)
	wantHidden(t, "the log", log.String(), value)
	parent, err := json.Marshal(r.get(configMaps, r.ns, "set").Object)
	if err != nil {
		t.Fatal(err)
	}
	wantHidden(t, "the parent", string(parent), value)
}

// The words of the API and of the loader are shown for other kinds: if hiding
// everything were the way, no user could fix a bundle.
func TestOtherKindsAreShown(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: NS}\ndata: {'a b': c}\n")
	if _, err := r.pass(); err != nil {
		t.Fatal(err)
	}
	if got := r.report().Failures; len(got) != 1 || !strings.Contains(got[0].Message, "a b") {
		t.Errorf("got %+v, want the API's words", got)
	}
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func mustManifest(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}
