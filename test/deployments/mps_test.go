package deployments

import (
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// mpsConfig is what a node configuration has about MPS.
type mpsConfig struct {
	Profiles []struct {
		Backends []struct {
			Settings struct {
				MPS struct {
					Replicas   int
					Dir        string
					HostShmDir string
				}
				Edits struct{ DriverRoot, DriverRootMount string }
			}
		}
		Resources []struct{ Replicas int }
	}
}

// mpsDaemonSet returns the DaemonSet of MPS's control daemon, nil if there is none.
func mpsDaemonSet(objects []runtime.Object) *appsv1.DaemonSet {
	for _, object := range objects {
		if d, ok := object.(*appsv1.DaemonSet); ok && strings.HasSuffix(d.Name, "-nvidia-mps") {
			return d
		}
	}
	return nil
}

// TestMPSPod verifies that MPS's control daemon has a pod of its own, which no upgrade of the
// chart replaces and no selector of the agent's matches, that its program accepts its flags,
// and that it can write its directories on the node.
func TestMPSPod(t *testing.T) {
	if d := mpsDaemonSet(render(t, mockValues...)); d != nil {
		t.Errorf("%s is there without nvidiaMPS.enabled", d.Name)
	}
	for values, root := range map[string]string{"everything": "/run/nvidia/driver", "example nvidia-mps.yaml": ""} {
		objects := render(t, valueSets(t)[values]...)
		d, agent := mpsDaemonSet(objects), only[*appsv1.DaemonSet](t, objects)
		if d == nil {
			t.Fatalf("%s has none", values)
		}
		pod, container := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
		if d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType || !pod.HostPID || !*container.SecurityContext.Privileged {
			t.Errorf("%s: update strategy %s, hostPID %v, %+v", values, d.Spec.UpdateStrategy.Type, pod.HostPID, container.SecurityContext)
		}
		if labels.SelectorFromSet(agent.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) ||
			!labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("%s: the agent selects %v, this %v; the pods have %v", values, agent.Spec.Selector, d.Spec.Selector, d.Spec.Template.Labels)
		}
		if diff := cmp.Diff(agent.Spec.Template.Spec.Affinity, pod.Affinity); diff != "" {
			t.Errorf("%s: other nodes than the agent's:\n%s", values, diff)
		}
		program := exec.CommandContext(t.Context(), filepath.Join(bin, path.Base(container.Command[0])), append(container.Args, "--help")...)
		if out, _ := program.CombinedOutput(); strings.Contains(string(out), "not defined") || !strings.Contains(string(out), "-dir") {
			t.Errorf("%s: %s", program, out)
		}
		dir := strings.TrimPrefix(container.Args[2], "--dir=")
		for file, host := range map[string]string{dir + "/pipe/x": root + dir + "/pipe/x", "/dev/shm/x": root + dir + "/shm/x"} {
			if got := onNode(t, pod, container, "/driver-root"+file); got != host {
				t.Errorf("%s: %s is %s on the node, want %s", values, file, got, host)
			}
		}
	}
}

// onNode returns the node's path of a file that a container can write.
func onNode(t *testing.T, pod corev1.PodSpec, container corev1.Container, file string) string {
	t.Helper()
	mount := mountOf(container, file)
	if mount.ReadOnly {
		t.Errorf("%s is read-only", file)
	}
	for _, v := range pod.Volumes {
		if v.Name == mount.Name {
			return path.Join(v.HostPath.Path, strings.TrimPrefix(file, mount.MountPath))
		}
	}
	return ""
}

// TestMPSExample verifies that the example agrees with itself: limits are for as many replicas
// as there are, and the settings' directories are those of the control daemon's pod.
func TestMPSExample(t *testing.T) {
	objects := render(t, valueSets(t)["example nvidia-mps.yaml"]...)
	var config mpsConfig
	if err := yaml.Unmarshal([]byte(only[*corev1.ConfigMap](t, objects).Data["node.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	profile := config.Profiles[0]
	settings := profile.Backends[0].Settings
	if set, advertised := settings.MPS.Replicas, profile.Resources[0].Replicas; set != advertised || set < 2 {
		t.Errorf("limits for %d, and %d replicas", set, advertised)
	}
	pod := mpsDaemonSet(objects).Spec.Template.Spec
	if got := onNode(t, pod, pod.Containers[0], "/driver-root/dev/shm/x"); got != path.Join(settings.MPS.HostShmDir, "x") {
		t.Errorf("containers get %s as /dev/shm, the daemon has %s", settings.MPS.HostShmDir, path.Dir(got))
	}
	// The backend finds the socket below its own mount of the driver's root.
	backend := backendContainer(t, objects, "nvidia")
	socket := settings.Edits.DriverRootMount + "/run/accelmux-mps/socket"
	if m := mountOf(backend, socket); m.MountPath != settings.Edits.DriverRootMount || settings.MPS.Dir != "" || settings.Edits.DriverRoot != "/" {
		t.Errorf("the backend has %s in the mount %+v, with the settings %+v", socket, m, settings)
	}
}
