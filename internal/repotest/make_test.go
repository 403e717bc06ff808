package repotest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A misspelled variable of make ends it, where make alone would go on without. -n: nothing is made.
func TestMakeVariables(t *testing.T) {
	for args, want := range map[string]string{
		"run BUNDEL=dir":                      "BUNDEL: no target has such a variable (did you mean BUNDLE?); make help",
		"run bundle=dir":                      "bundle: no target has such a variable (did you mean BUNDLE?); make help",
		"run ETCDSERVER=e":                    "ETCDSERVER: no target has such a variable (did you mean ETCD_SERVERS?); make help",
		"soak DURATON=1m":                     "DURATON: no target has such a variable (did you mean DURATION?); make help",
		"run WHATEVER=1":                      "WHATEVER: no target has such a variable; make help",
		"soak CLUSTER=embeded":                "CLUSTER=embeded: must be embedded or roles",
		"demo BUNDLE=dir":                     "BUNDLE: the demo has bundles of its own",
		"help BUNDLE=dir":                     "",
		"help CLUSTER=external KUBECONFIG=k":  "",
		"help DURATION=1m SEED=1 VERSION=v1":  "",
		"help GOFLAGS=-v LOCKSTEP_NODE_ID=me": "",
	} {
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"-n"}, strings.Fields(args)...)...) //nolint:gosec // the words above
		cmd.Dir = root
		cmd.Env = slices.DeleteFunc(cmd.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") })
		out, err := cmd.CombinedOutput()
		if (err != nil) != (want != "") || !strings.Contains(string(out), want) {
			t.Errorf("make %s: got %v and %s, want %q", args, err, out, want)
		}
	}
}
