package kubelet

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	v1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestInjectCDI verifies that the options of a container carry the CDI names of
// its devices, and that a runtime finds those in the CDI directory.
func TestInjectCDI(t *testing.T) {
	n := start(t, mock{Count: 4}, 4, injection("cdi"))
	realkubelet.CDIDevices.Need(t, n.kubelet.Release())
	n.specsHeld = true
	pod := n.admit("pod", gpu, 2)
	opts := n.startContainer(pod)
	var names []string
	for _, d := range opts.CDIDevices {
		names = append(names, d.Name)
	}
	n.wantInjected(names, n.held(pod, gpu))
	if len(opts.Devices)+len(opts.Mounts) != 0 {
		t.Errorf("options %+v; want CDI names only", opts)
	}
	// Kubelets before 1.33 make annotations of the names, for older runtimes.
	for _, a := range opts.Annotations {
		if !strings.HasPrefix(a.Name, cdi.AnnotationPrefix+"devicemanager_") {
			t.Errorf("annotation %s; want none of ours", a.Name)
		}
	}
	if all := n.cdiNames(opts); !slices.Equal(all, names) {
		t.Errorf("CDI names %v, with those of annotations %v", names, all)
	}
}

// TestInjectCDIAnnotations verifies the same for a resource that is injected by
// annotations, for kubelets that do not know CDI.
func TestInjectCDIAnnotations(t *testing.T) {
	n := start(t, mock{Count: 4}, 4, injection("cdi-annotations"))
	n.specsHeld = true
	pod := n.admit("pod", gpu, 2)
	opts := n.startContainer(pod)
	n.wantInjected(n.annotated(opts), n.held(pod, gpu))
	if len(opts.CDIDevices) != 0 {
		t.Errorf("CDI names %v beside the annotations; want none", opts.CDIDevices)
	}
}

// TestInjectAuto verifies that a resource whose configuration does not choose gets CDI
// names that reach the runtime with every kubelet: in annotations, and in the field too
// where kubelet knows it.
func TestInjectAuto(t *testing.T) {
	n := start(t, mock{Count: 4}, 4)
	n.specsHeld = true
	pod := n.admit("pod", gpu, 2)
	opts := n.startContainer(pod)
	held := n.held(pod, gpu)
	n.wantInjected(n.annotated(opts), held)
	if realkubelet.CDIDevices.Can(n.kubelet.Release()) && len(opts.CDIDevices) != len(held) {
		t.Errorf("CDI names %v beside the annotations; want one for each of %v", opts.CDIDevices, held)
	}
	n.wantInjected(n.cdiNames(opts), held)
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
	for _, how := range []string{"plain", "cdi-annotations", "cdi"} {
		n := start(t, mock{Count: 4}, 4, injection(how), func(c *agent.Config) {
			c.Backend.Allow = &agent.Allow{Env: []string{"VISIBLE"}}
			c.Backend.Settings.(map[string]any)["edits"] = map[string]any{
				"env": map[string]any{"VISIBLE": "{{.ID}}"}, "envSeparators": map[string]any{"VISIBLE": ":"},
				"deviceNodes": []any{map[string]any{"path": "/dev/x{{.Index}}", "hostPath": "/dev/null"}},
			}
		})
		if how == "cdi" && !realkubelet.CDIDevices.Can(n.kubelet.Release()) {
			t.Run(how, func(t *testing.T) { realkubelet.CDIDevices.Need(t, n.kubelet.Release()) })
			continue
		}
		n.specsHeld = how != "plain"
		pod := n.admit("pod", gpu, 3)
		want := strings.Join(slices.Sorted(slices.Values(n.held(pod, gpu))), ":")
		for range 2 {
			opts := n.startContainer(pod)
			if len(opts.Envs) != 1 || opts.Envs[0].Name != "VISIBLE" || opts.Envs[0].Value != want {
				t.Errorf("%s: environment %+v; want VISIBLE=%s", how, opts.Envs, want)
			}
			if names := n.cdiNames(opts); how != "plain" && len(names) != 3 {
				t.Errorf("%s: CDI names %v beside the environment; want three", how, names)
			}
		}
	}
}

func injection(how string) func(*agent.Config) {
	return func(c *agent.Config) { c.Resources[0].Injection = how }
}

// startContainer starts container c of the pod.
func (n *node) startContainer(pod *v1.Pod) *realkubelet.ContainerOptions {
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
// afresh and applies the edits. There must be one device's name for each unit, and every
// device must add a node.
func (n *node) wantInjected(names, units []string) {
	n.Helper()
	if len(deviceNames(names)) != len(units) {
		n.Errorf("CDI names %v for units %v; want one each", names, units)
	}
	if err := n.inject(names); err != nil {
		n.Errorf("inject %v: %v", names, err)
	}
}

// deviceNames are those of devices, without that of what the container alone gets.
func deviceNames(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "/holder=") })
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
	if spec.Linux == nil || len(spec.Linux.Devices) != len(deviceNames(names)) {
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
		if filepath.Ext(f.Name()) == ".lock" {
			continue // no runtime reads it
		}
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o644 || strings.HasPrefix(f.Name(), ".") {
			t.Errorf("%s has mode %v; want a plain name and 0644", f.Name(), info.Mode().Perm())
		}
	}
}
