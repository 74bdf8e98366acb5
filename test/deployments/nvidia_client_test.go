package deployments

import (
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// nvidiaClient returns the DaemonSet for whose pods NVIDIA's tools wait, nil if there is none.
func nvidiaClient(objects []runtime.Object) *appsv1.DaemonSet {
	for _, object := range objects {
		if d, ok := object.(*appsv1.DaemonSet); ok && strings.HasSuffix(d.Name, "-nvidia-client") {
			return d
		}
	}
	return nil
}

// hostPath is the directory of the node that a container mounts, "" if it is none.
func hostPath(pod corev1.PodSpec, mount corev1.VolumeMount) string {
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if i < 0 || pod.Volumes[i].HostPath == nil {
		return ""
	}
	return pod.Volumes[i].HostPath.Path
}

// TestNVIDIAClient verifies that NVIDIA's tools find the pod by the label that they change, that it runs where the agent
// does, without rights and with time to wait, and that its program finds the agent's socket.
func TestNVIDIAClient(t *testing.T) {
	if d := nvidiaClient(render(t, mockValues...)); d != nil {
		t.Errorf("%s is there without nvidiaClient.enabled", d.Name)
	}
	if _, err := template(t, with("--set", "nvidiaClient.enabled=true,rbac.create=false")...); err == nil || !strings.Contains(err.Error(), "needs rbac.create") {
		t.Errorf("agents that cannot see the labels: %v", err)
	}
	for name, args := range map[string][]string{
		"NVIDIA client": valueSets(t)["NVIDIA client"],
		"other values":  with("--set", "nvidiaClient.enabled=true,nvidiaClient.backends={a,b},nodeSelector.example\\.com/gpu=yes,seLinuxOptions.type=spc_t"),
	} {
		objects := render(t, args...)
		d, agent := nvidiaClient(objects), only[*appsv1.DaemonSet](t, objects)
		if d == nil {
			t.Fatalf("%s has none", name)
		}
		pod, container := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
		// The key that internal/kubernetes/client.go of k8s-driver-manager v0.12 looks for in spec.nodeSelector, not in the affinity.
		want := map[string]string{"nvidia.com/gpu.deploy.client": "true"}
		for label, value := range agent.Spec.Template.Spec.NodeSelector {
			want[label] = value
		}
		if diff := cmp.Diff(want, pod.NodeSelector); diff != "" {
			t.Errorf("%s: node selector (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(agent.Spec.Template.Spec.Affinity, pod.Affinity); diff != "" {
			t.Errorf("%s: other nodes than the agent's:\n%s", name, diff)
		}
		if labels.SelectorFromSet(agent.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) ||
			!labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("%s: the agent selects %v, this %v; the pods have %v", name, agent.Spec.Selector, d.Spec.Selector, d.Spec.Template.Labels)
		}
		// The agent gives a backend 25 s for the calls that it has.
		if s := container.SecurityContext; *pod.TerminationGracePeriodSeconds < 30 || pod.HostPID || *pod.AutomountServiceAccountToken ||
			*s.AllowPrivilegeEscalation || len(s.Capabilities.Add) > 0 || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: grace period %d s, hostPID %v, token %v, %+v", name, *pod.TerminationGracePeriodSeconds, pod.HostPID, *pod.AutomountServiceAccountToken, s)
		}
		help := exec.CommandContext(t.Context(), filepath.Join(bin, path.Base(container.Command[0])), append(container.Args, "--help")...)
		if out, err := help.CombinedOutput(); err != nil || !strings.Contains(string(out), "--run-dirs") {
			t.Errorf("%s: %s: %v\n%s", name, help, err, out)
		}
		// Of two agents in an upgrade each has a directory of its own there.
		run, here := mountOf(agentContainer(t, objects), "/run/accelmux/admin.sock"), container.VolumeMounts[0]
		if ofAgent, host := hostPath(agent.Spec.Template.Spec, run), hostPath(pod, here); run.SubPathExpr != "$(POD_NAME)" || run.MountPath != "/run/accelmux" ||
			container.Args[1] != "--run-dirs="+here.MountPath || !here.ReadOnly || host != ofAgent || !strings.HasPrefix(host, "/run/accelmux/") {
			t.Errorf("%s: the agent has %q of the node as %+v, the client %q as %+v, and the arguments %v", name, ofAgent, run, host, here, container.Args)
		}
		named := func(v corev1.EnvVar) bool {
			return v.Name == "POD_NAME" && v.ValueFrom.FieldRef.FieldPath == "metadata.name"
		}
		if !slices.ContainsFunc(agentContainer(t, objects).Env, named) {
			t.Errorf("%s: the agent's container has no POD_NAME", name)
		}
	}
}
