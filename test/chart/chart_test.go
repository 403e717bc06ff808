package chart

import (
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const dir = "../../deploy/chart"

// render renders the chart as helm template does.
func render(values map[string]any) ([]*unstructured.Unstructured, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "lockstep", Namespace: "kube-system", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for text := range strings.SplitSeq("\n"+files[name], "\n---") {
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
				return nil, err
			}
			if len(object) > 0 {
				out = append(out, &unstructured.Unstructured{Object: object})
			}
		}
	}
	return out, nil
}

func mustRender(t *testing.T, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	out, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func titles(all []*unstructured.Unstructured) (out []string) {
	for _, o := range all {
		out = append(out, strings.TrimSuffix(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	slices.Sort(out)
	return out
}

// everything turns all parts on.
var everything = map[string]any{
	"group":          "acme:gates",
	"podMonitor":     map[string]any{"create": true, "labels": map[string]any{"release": "monitoring"}},
	"prometheusRule": map[string]any{"create": true, "labels": map[string]any{"release": "monitoring"}},
	"dashboard":      map[string]any{"create": true},
	"global":         map[string]any{"of": "a parent chart"},
	"extraObjects": []any{map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "more", "namespace": "default"}, "data": map[string]any{"a": "b"},
	}},
}

// TestChart applies each document on its own, as a strict dry run: Helm's dry run does not notice a field
// that is misspelt.
func TestChart(t *testing.T) {
	api := cluster.NewAPIServer(t)
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	apply := func(o *unstructured.Unstructured) error {
		if o.GroupVersionKind().Group == "monitoring.coreos.com" {
			return strictly(o)
		}
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		force := true
		_, err = client.Resource(resource).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.ApplyPatchType, text,
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: "test", Force: &force})
		return err
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(cluster.Assets(t, "sidecar"), "sidecar"), "bundle", "rights", "builtin").Output()
	if err != nil {
		t.Fatal(err)
	}
	values := maps.Clone(everything)
	values["bundleRights"] = string(printed)
	all := mustRender(t, values)
	for _, o := range all {
		if err := apply(o); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		switch o.GetKind() {
		case "DaemonSet", "Deployment", "StatefulSet", "Pod", "Job":
			t.Errorf("%s %s: a sidecar starts and stops with its kube-apiserver", o.GetKind(), o.GetName())
		}
		// A field that no version has: it is refused by name.
		broken := o.DeepCopy()
		_ = unstructured.SetNestedField(broken.Object, "x", "metadata", "lables")
		if err := apply(broken); err == nil || !strings.Contains(err.Error(), "lables") {
			t.Errorf("%s %s with a misspelt field: got %v", o.GetKind(), o.GetName(), err)
		}
	}
	if got := len(mustRender(t, everything)); len(all) <= got {
		t.Errorf("with the rights of a bundle there are %d objects, without %d", len(all), got)
	}
}

// strictly decodes an object of the Prometheus operator.
func strictly(o *unstructured.Unstructured) error {
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return err
	}
	switch o.GetKind() {
	case "PodMonitor":
		return yaml.UnmarshalStrict(text, &monitoringv1.PodMonitor{})
	case "PrometheusRule":
		return yaml.UnmarshalStrict(text, &monitoringv1.PrometheusRule{})
	}
	return errors.New("no type is known for it")
}

func TestChart_values(t *testing.T) {
	byDefault := titles(mustRender(t, nil))
	for _, want := range []string{"ClusterRole /lockstep", "Role kube-system/lockstep", "FlowSchema /lockstep", "ClusterRole /lockstep-reader"} {
		if !slices.Contains(byDefault, want) {
			t.Errorf("by default there is no %s; there are %q", want, byDefault)
		}
	}
	off := map[string]any{"create": false}
	if got := titles(mustRender(t, map[string]any{"rights": off, "readers": off, "flowSchema": off})); len(got) != 0 {
		t.Errorf("with everything off: got %q", got)
	}
	for _, o := range mustRender(t, everything) {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "lockstep:sidecars") {
			t.Errorf("%s %s has the group of before", o.GetKind(), o.GetName())
		}
		if kind := o.GetKind(); (kind == "PodMonitor" || kind == "PrometheusRule") && o.GetLabels()["release"] != "monitoring" {
			t.Errorf("%s has the labels %v", kind, o.GetLabels())
		}
	}
	for name, values := range map[string]map[string]any{
		"a misspelt value":      {"rigths": off},
		"a misspelt part of it": {"rights": map[string]any{"craete": true}},
		"of another type":       {"bundleRights": []any{"x"}},
		"an object of no kind":  {"extraObjects": []any{map[string]any{"a": "b"}}},
	} {
		if _, err := render(values); err == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
}
