package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/bundles"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// A release that adds a field to its CRD, and uses it, is clean.
func TestChangedCRD(t *testing.T) {
	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kettles.example.com}\n" +
		"spec: {group: example.com, scope: Namespaced, names: {plural: kettles, kind: Kettle}, versions: [{name: v1, served: true, storage: true, " +
		"schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {liters: {type: integer}%s}}}}}}]}\n"
	const kettle = "apiVersion: example.com/v1\nkind: Kettle\nmetadata: {name: big, namespace: default}\nspec: {liters: 3%s}\n"
	r := newPlanRig(t)
	api := cluster.NewAPIServer(t)
	older := writeBundle(t, constraints("1.0.0", "1.0.0", "1.0.0"), fmt.Sprintf(definition, ""), fmt.Sprintf(kettle, ""))
	newer := writeBundle(t, constraints("1.1.0", "1.0.0", "1.0.0"), fmt.Sprintf(definition, ", lid: {type: boolean}"), fmt.Sprintf(kettle, ", lid: true"))
	r.nodes(older, "cp-1", "cp-2", "cp-3")
	applyBundle(t, api, older)
	r.done(older)

	const why = "its CRD changes with the bundle, so that the server could not check it yet"
	kubeconfig := "--kubeconfig=" + api.Kubeconfig()
	code, out, errs := r.run("bundle", "diff", newer, kubeconfig)
	if code != console.ExitDiffers || errs != "" || !strings.Contains(out, "# "+why+"\ndiff -u live/Kettle/default/big") || !strings.Contains(out, "\n+  lid: true\n") {
		t.Errorf("got exit %d and\n%s%s", code, out, errs)
	}
	code, out, errs = r.run("plan", "--bundle", newer, kubeconfig, "-o", "json")
	var got bundles.PlanReport
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in\n%s%s", err, out, errs)
	}
	want := []bundles.ObjectReport{
		{Action: "changed", Object: `CustomResourceDefinition "kettles.example.com"`}, {Action: "changed", Object: `Kettle "default/big"`, Message: why},
	}
	if diff := cmp.Diff(want, got.Objects.Differing); code != console.ExitOK || !got.Clean || diff != "" {
		t.Errorf("got exit %d, clean %t, %s (-want +got):\n%s", code, got.Clean, errs, diff)
	}
	wrong := writeBundle(t, constraints("1.1.0", "1.0.0", "1.0.0"), fmt.Sprintf(definition, ""), fmt.Sprintf(kettle, ", lid: true"))
	r.want(console.ExitTrouble, "field not declared in schema", "bundle", "diff", wrong, kubeconfig)
}
