package kubeadm

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Pod contains the fields of a static pod's manifest, or of a patch for one, that the check needs.
type Pod struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		TerminationGracePeriodSeconds *int64          `json:"terminationGracePeriodSeconds"`
		InitContainers                []ContainerSpec `json:"initContainers"`
		Containers                    []ContainerSpec `json:"containers"`
		Volumes                       []volume        `json:"volumes"`
	} `json:"spec"`
}

// ContainerSpec is a container of a Pod.
type ContainerSpec struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	StartupProbe   *probe `json:"startupProbe"`
	ReadinessProbe *probe `json:"readinessProbe"`
	LivenessProbe  *probe `json:"livenessProbe"`
	Lifecycle      struct {
		PreStop *struct {
			Sleep *struct {
				Seconds int64 `json:"seconds"`
			} `json:"sleep"`
		} `json:"preStop"`
	} `json:"lifecycle"`
	VolumeMounts []struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		SubPath   string `json:"subPath"`
	} `json:"volumeMounts"`
}

type probe struct {
	HTTPGet *struct {
		Host   string `json:"host"` // empty: the address of the pod
		Path   string `json:"path"`
		Port   any    `json:"port"`   // a number, or a name
		Scheme string `json:"scheme"` // empty: HTTP
	} `json:"httpGet"`
}

type volume struct {
	Name     string `json:"name"`
	HostPath *struct {
		Path string `json:"path"`
	} `json:"hostPath"`
}

// ParsePod reads a manifest, or a strategic patch of one.
func ParsePod(content []byte) (Pod, error) {
	var p Pod
	if err := yaml.Unmarshal(content, &p); err != nil {
		return Pod{}, fmt.Errorf("not the manifest of a pod: %w", err)
	}
	return p, nil
}

// Sidecar returns the sidecar's container, also if it is among the init containers; nil:
// the pod has none.
func (p Pod) Sidecar() *ContainerSpec {
	return named(slices.Concat(p.Spec.Containers, p.Spec.InitContainers), Container)
}

func named(containers []ContainerSpec, name string) *ContainerSpec {
	if i := slices.IndexFunc(containers, func(c ContainerSpec) bool { return c.Name == name }); i >= 0 {
		return &containers[i]
	}
	return nil
}

// apiserver returns kube-apiserver's container; nil: the pod has none.
func (p Pod) apiserver() *ContainerSpec { return named(p.Spec.Containers, "kube-apiserver") }

// defaultGrace is the grace period of a pod without terminationGracePeriodSeconds, in seconds.
const defaultGrace = 30

func (p Pod) grace() int64 {
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		return *g
	}
	return defaultGrace
}

// endpointAnnotation contains the address and the port of kube-apiserver, as kubeadm knows them.
const endpointAnnotation = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"

// Endpoint returns the address (host:port) of kube-apiserver, as kubeadm wrote it;
// empty: unknown.
func (p Pod) Endpoint() string { return p.Metadata.Annotations[endpointAnnotation] }

// Variable returns a variable of the container.
func (c ContainerSpec) Variable(name string) (string, bool) {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value, true
		}
	}
	return "", false
}

// HostPath returns the file of the node that the container sees at a path; empty: it is
// not from the node.
func (p Pod) HostPath(c ContainerSpec, inside string) string {
	best, out := -1, ""
	for _, m := range c.VolumeMounts {
		rest, below := strings.CutPrefix(inside, strings.TrimSuffix(m.MountPath, "/"))
		if !below || rest != "" && rest[0] != '/' || len(m.MountPath) <= best {
			continue
		}
		i := slices.IndexFunc(p.Spec.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 || p.Spec.Volumes[i].HostPath == nil {
			continue
		}
		best, out = len(m.MountPath), path.Join(p.Spec.Volumes[i].HostPath.Path, m.SubPath, rest)
	}
	return out
}

// flag returns the value of a flag, as --name=value or --name; the last one counts, as
// in the program itself.
func (c ContainerSpec) flag(name string) string {
	return flagOf(slices.Concat(c.Command, c.Args), name)
}

func flagOf(args []string, name string) string {
	out := ""
	for _, arg := range args {
		if flagName(arg) != name {
			continue
		}
		_, value, hasValue := strings.Cut(arg, "=")
		if out = value; !hasValue {
			out = strconv.FormatBool(true)
		}
	}
	return out
}

// flagName returns the name in --name=value.
func flagName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	return name
}
