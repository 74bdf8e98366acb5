package kubelet

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	v1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestInjection verifies for each way of injection that the options of a container carry its
// devices that way and no other, so that a runtime finds them: CDI names in the field that newer
// kubelets have, in annotations, or, by default, in both; or the nodes and variables themselves.
func TestInjection(t *testing.T) {
	for how, want := range map[string]struct{ field, annotations bool }{
		"": {true, true}, "cdi": {field: true}, "cdi-annotations": {annotations: true}, "plain": {},
	} {
		t.Run(cmp.Or(how, "default"), func(t *testing.T) {
			n := start(t, mock{Count: 4}, 4, func(c *agent.Config) { c.Resources[0].Injection = how })
			if how == "cdi" {
				realkubelet.CDIDevices.Need(t, n.kubelet.Release())
			}
			pod := n.admit("pod", gpu, 2)
			opts, held := n.startContainer(pod), n.held(pod, gpu)
			ours := slices.DeleteFunc(slices.Clone(opts.Annotations), func(a realkubelet.Variable) bool {
				// Kubelets before 1.33 make annotations of the names, for older runtimes.
				return strings.HasPrefix(a.Name, cdi.AnnotationPrefix+"devicemanager_")
			})
			field := want.field && realkubelet.CDIDevices.Can(n.kubelet.Release())
			if field != (len(opts.CDIDevices) == 2) || !field && len(opts.CDIDevices) > 0 || want.annotations != (len(ours) > 0) {
				t.Errorf("CDI names %v, annotations %v", opts.CDIDevices, ours)
			}
			if how != "plain" {
				n.wantInjected(n.cdiNames(opts), held)
				if len(opts.Devices)+len(opts.Mounts) != 0 {
					t.Errorf("options %+v; want CDI names only", opts)
				}
				return
			}
			if len(opts.Devices) != 2 || len(opts.Envs) == 0 {
				t.Errorf("device nodes %+v, environment %+v; want one node for each of two devices, and their variables", opts.Devices, opts.Envs)
			}
		})
	}
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
