package kubelet

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/test/kubelet/agent"
)

// TestInjectCDI verifies that the options of a container carry the CDI names of
// its devices, and that a runtime finds those in the CDI directory.
func TestInjectCDI(t *testing.T) {
	n := start(t, mock{Count: 4}, 4)
	n.specsHeld = true
	pod := n.admit("pod", gpu, 2)
	opts := n.startContainer(pod)
	var names []string
	for _, d := range opts.CDIDevices {
		names = append(names, d.Name)
	}
	n.wantInjected(names, n.held(pod, gpu))
	if len(opts.Devices)+len(opts.Mounts)+len(opts.Annotations) != 0 {
		t.Errorf("options %+v; want CDI names only", opts)
	}
}

// TestInjectCDIAnnotations verifies the same for a resource that is injected by
// annotations, for kubelets that do not know CDI.
func TestInjectCDIAnnotations(t *testing.T) {
	n := start(t, mock{Count: 4}, 4, injection("cdi-annotations"))
	n.specsHeld = true
	pod := n.admit("pod", gpu, 2)
	opts := n.startContainer(pod)
	annotations := map[string]string{}
	for _, a := range opts.Annotations {
		annotations[a.Name] = a.Value
	}
	_, names, err := cdi.ParseAnnotations(annotations)
	if err != nil {
		t.Fatalf("annotations %v: %v", annotations, err)
	}
	n.wantInjected(names, n.held(pod, gpu))
	if len(opts.CDIDevices) != 0 {
		t.Errorf("CDI names %v beside the annotations; want none", opts.CDIDevices)
	}
}

// TestInjectPlain verifies that a resource for runtimes without CDI gives
// kubelet the device nodes and the environment themselves.
func TestInjectPlain(t *testing.T) {
	n := start(t, mock{Count: 4}, 4, injection("plain"))
	pod := n.admit("pod", gpu, 2)
	opts := n.startContainer(pod)
	if len(opts.CDIDevices)+len(opts.Annotations) != 0 {
		t.Errorf("options %+v; want nothing of CDI", opts)
	}
	if len(opts.Devices) != 2 {
		t.Errorf("device nodes %+v; want one for each of two devices", opts.Devices)
	}
	for _, d := range opts.Devices {
		if _, err := os.Stat(d.PathOnHost); err != nil {
			t.Errorf("device node: %v", err)
		}
	}
	if len(opts.Envs) == 0 {
		t.Error("no environment; want the devices' own")
	}
}

// TestInjectJoinedEnv verifies that a variable which the devices join reaches the
// container whole, be the devices injected by CDI or not, and is the same when the
// container starts again.
func TestInjectJoinedEnv(t *testing.T) {
	for _, how := range []string{"plain", "cdi"} {
		n := start(t, mock{Count: 4}, 4, injection(how), func(c *agent.Config) {
			c.Backend.Settings.(map[string]any)["edits"] = map[string]any{
				"env": map[string]any{"VISIBLE": "{{.ID}}"}, "envSeparators": map[string]any{"VISIBLE": ":"},
				"deviceNodes": []any{map[string]any{"path": "/dev/x{{.Index}}", "hostPath": "/dev/null"}},
			}
		})
		n.specsHeld = how == "cdi"
		pod := n.admit("pod", gpu, 3)
		want := strings.Join(slices.Sorted(slices.Values(n.held(pod, gpu))), ":")
		for range 2 {
			opts := n.startContainer(pod)
			if len(opts.Envs) != 1 || opts.Envs[0].Name != "VISIBLE" || opts.Envs[0].Value != want {
				t.Errorf("%s: environment %+v; want VISIBLE=%s", how, opts.Envs, want)
			}
			if how == "cdi" && len(opts.CDIDevices) != 3 {
				t.Errorf("CDI names %v beside the environment; want three", opts.CDIDevices)
			}
		}
	}
}

func injection(how string) func(*agent.Config) {
	return func(c *agent.Config) { c.Resources[0].Injection = how }
}

// startContainer starts container c of the pod.
func (n *node) startContainer(pod *v1.Pod) *devicemanager.DeviceRunContainerOptions {
	n.Helper()
	opts, err := n.kubelet.StartContainer(n.soon(), pod, "c")
	if err != nil {
		n.Fatalf("start the container of %s: %v", pod.Name, err)
	}
	return opts
}

// nodes are those that the CDI definition with a name gives, sorted.
func (n *node) nodes(name string) []string {
	n.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.agent.CDIDir()), cdi.WithAutoRefresh(false))
	if err != nil {
		n.Fatal(err)
	}
	device := cache.GetDevice(name)
	if device == nil {
		n.Fatalf("no definition of %s: %v", name, cache.GetErrors())
	}
	var paths []string
	for _, node := range slices.Concat(device.GetSpec().ContainerEdits.DeviceNodes, device.ContainerEdits.DeviceNodes) {
		paths = append(paths, node.Path)
	}
	return slices.Sorted(slices.Values(paths))
}

// wantInjected does what a runtime does with CDI names: reads the directory
// afresh and applies the edits. There must be one name for each unit, and every
// device must add a node.
func (n *node) wantInjected(names, units []string) {
	n.Helper()
	if len(names) != len(units) {
		n.Errorf("CDI names %v for units %v; want one each", names, units)
	}
	if err := n.inject(names); err != nil {
		n.Errorf("inject %v: %v", names, err)
	}
}

func (n *node) inject(names []string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.agent.CDIDir()), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	if problems := cache.GetErrors(); len(problems) != 0 {
		n.Errorf("CDI directory: %v", problems)
	}
	spec := &oci.Spec{}
	if _, err := cache.InjectDevices(spec, names...); err != nil {
		return err
	}
	if spec.Linux == nil || len(spec.Linux.Devices) != len(names) {
		n.Errorf("the runtime would create %+v; want a node for each of %v", spec.Linux, names)
	}
	if spec.Process == nil || len(spec.Process.Env) == 0 {
		n.Errorf("the runtime would set no environment; want the devices' own")
	}
	return nil
}

// TestCDISpecsFollowTheDevices verifies that a name is on disk for every device
// that is advertised, readable by all, and gone with an agent that nobody needs.
func TestCDISpecsFollowTheDevices(t *testing.T) {
	n := start(t, mock{Count: 4}, 4)
	devices, err := n.agent.Devices(n.soon())
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(devices))
	for _, id := range slices.Sorted(maps.Keys(devices)) {
		names = append(names, devices[id].CDI)
	}
	if err := n.inject(names); err != nil {
		t.Errorf("inject %v: %v", names, err)
	}
	files, err := os.ReadDir(n.agent.CDIDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o644 || strings.HasPrefix(f.Name(), ".") {
			t.Errorf("%s has mode %v; want a plain name and 0644", f.Name(), info.Mode().Perm())
		}
	}
}
