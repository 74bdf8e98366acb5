package deployments

import (
	"path"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// fpgaSettings are what of a node configuration says where bitstreams are.
type fpgaSettings struct {
	Profiles []struct {
		Backends []struct{ Settings struct{ Bitstreams string } }
	}
}

// TestFPGAExample verifies that the example for FPGAs agrees with itself: bitstreams are
// on the node where settings say so, and cannot be written to; what resets write to is
// the node's own and can be; and device nodes can be opened.
func TestFPGAExample(t *testing.T) {
	objects := render(t, valueSets(t)["example fpga.yaml"]...)
	var config fpgaSettings
	if err := yaml.Unmarshal([]byte(only[*corev1.ConfigMap](t, objects).Data["node.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	container := backendContainer(t, objects, "fpga")
	volumes := map[string]corev1.Volume{}
	for _, v := range only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec.Volumes {
		volumes[v.Name] = v
	}
	mounted := func(dir, onNode string, readOnly bool) {
		t.Helper()
		mount := mountOf(container, path.Join(dir, "x"))
		if mount.MountPath != dir || mount.ReadOnly != readOnly {
			t.Errorf("%s is in %+v, want a mount of its own, read-only: %v", dir, mount, readOnly)
			return
		}
		if host := volumes[mount.Name].HostPath; host == nil || host.Path != onNode {
			t.Errorf("%s is %+v, want %s of the node", dir, host, onNode)
		}
	}
	mounted("/host/sys/devices", "/sys/devices", false)
	set := 0
	for _, profile := range config.Profiles {
		if dir := profile.Backends[0].Settings.Bitstreams; dir != "" {
			mounted(dir, dir, true)
			set++
		}
	}
	if set == 0 {
		t.Error("no profile has bitstreams")
	}
	if p := container.SecurityContext.Privileged; p == nil || !*p {
		t.Error("the backend may not open device nodes")
	}
}
