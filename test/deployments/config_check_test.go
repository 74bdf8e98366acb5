package deployments

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// configCheck returns the Job that helm runs before an installation and an upgrade, and the ConfigMap that it reads.
func configCheck(t *testing.T, objects []runtime.Object) (*batchv1.Job, *corev1.ConfigMap) {
	t.Helper()
	job := only[*batchv1.Job](t, objects)
	for _, object := range objects {
		if c, ok := object.(*corev1.ConfigMap); ok && c.Name == job.Spec.Template.Spec.Volumes[0].ConfigMap.Name {
			return job, c
		}
	}
	t.Fatal("the Job's ConfigMap is missing")
	return nil, nil
}

// TestConfigCheck verifies for every set of values that helm runs the check before everything else, with the configuration
// and the programs that the agents get, and with no right at all; and that its log is kept if it fails.
func TestConfigCheck(t *testing.T) {
	yes, no, user := true, false, int64(65532)
	for name, args := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			objects := render(t, args...)
			if name == "manifests" { // for kubectl
				if slices.ContainsFunc(objects, func(o runtime.Object) bool { _, isJob := o.(*batchv1.Job); return isJob }) {
					t.Error("kubectl would make the Job")
				}
				return
			}
			job, config := configCheck(t, objects)
			agents := only[*appsv1.DaemonSet](t, objects)
			agent, pod, container := agentContainer(t, objects), job.Spec.Template.Spec, job.Spec.Template.Spec.Containers[0]
			for _, o := range []metav1.Object{job, config} {
				hook := o.GetAnnotations()
				if hook["helm.sh/hook"] != "pre-install,pre-upgrade" || hook["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
					t.Errorf("%s has the annotations %v", o.GetName(), hook)
				}
			}
			// Without a weight it is 0.
			if job.Annotations["helm.sh/hook-weight"] != "" || config.Annotations["helm.sh/hook-weight"] != "-1" || job.Annotations["helm.sh/hook-output-log-policy"] != "hook-failed,hook-succeeded" {
				t.Errorf("the Job has the annotations %v, its ConfigMap %v", job.Annotations, config.Annotations)
			}
			if diff := cmp.Diff(only[*corev1.ConfigMap](t, objects).Data, config.Data); diff != "" {
				t.Errorf("another configuration than that of the agents (-agents +check):\n%s", diff)
			}
			if container.Image != agent.Image || container.ImagePullPolicy != agent.ImagePullPolicy || !cmp.Equal(pod.ImagePullSecrets, agents.Spec.Template.Spec.ImagePullSecrets) {
				t.Errorf("the image is %s, that of the agents %s", container.Image, agent.Image)
			}
			for _, m := range agent.VolumeMounts {
				if m.Name == "backends" && !slices.ContainsFunc(container.VolumeMounts, func(other corev1.VolumeMount) bool { return cmp.Equal(m, other) }) {
					t.Errorf("it does not see %s", m.MountPath)
				}
			}
			if len(pod.InitContainers) != len(agents.Spec.Template.Spec.InitContainers) {
				t.Errorf("%d init containers, the agent's pod has %d", len(pod.InitContainers), len(agents.Spec.Template.Spec.InitContainers))
			}
			if *job.Spec.BackoffLimit != 0 || pod.RestartPolicy != corev1.RestartPolicyNever || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" {
				t.Errorf("the Job is %+v", job.Spec)
			}
			if diff := cmp.Diff(&corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}, pod.SecurityContext); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
			for _, c := range append(pod.InitContainers, container) {
				if diff := cmp.Diff(&corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}, c.SecurityContext); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.Name, diff)
				}
				if c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s has no memory limit", c.Name)
				}
			}
			for _, v := range pod.Volumes {
				if v.ConfigMap == nil && v.EmptyDir == nil {
					t.Errorf("it has the volume %+v", v)
				}
			}
			if selects(agents.Spec.Selector.MatchLabels, job.Spec.Template.Labels) {
				t.Error("the DaemonSet selects its pod")
			}
			runConfigCheck(t, job, config, true, "is valid")
		})
	}
	if objects := render(t, with("--set", "configCheck.enabled=false")...); slices.ContainsFunc(objects, func(o runtime.Object) bool { _, isJob := o.(*batchv1.Job); return isJob }) {
		t.Error("the value does not turn it off")
	}
}

// runConfigCheck runs the command of the Job on its ConfigMap, and verifies its result and that it prints want.
func runConfigCheck(t *testing.T, job *batchv1.Job, config *corev1.ConfigMap, ok bool, want string) {
	t.Helper()
	c := job.Spec.Template.Spec.Containers[0]
	args := slices.Clone(c.Args)
	file := slices.Index(args, "/etc/accelmux/node.yaml")
	dir := slices.Index(args, "--backend-dir=/usr/libexec/accelmux")
	if !slices.Equal(c.Command, []string{"/usr/bin/accelmux"}) || file < 0 || dir < 0 {
		t.Fatalf("the Job runs %v %v", c.Command, args)
	}
	args[file], args[dir] = write(t, "node.yaml", config.Data["node.yaml"]), "--backend-dir="+bin
	out, err := command(t.Context(), filepath.Join(bin, "accelmux"), args...)
	if err != nil {
		out += err.Error()
	}
	if (err == nil) != ok || !strings.Contains(out, want) {
		t.Errorf("valid: %v, printed %s\nwant %s", err == nil, out, want)
	}
}

// TestConfigCheckRefuses verifies that what the schema of the values cannot see is refused, with what is wrong; and that a
// backend that no image has is accepted, and named.
func TestConfigCheckRefuses(t *testing.T) {
	const header = "config: |\n  apiVersion: accelmux.io/v1alpha1\n  kind: NodeConfig\n  profiles:\n  - name: default\n    resources: [{name: example.com/gpu}]\n    backends:\n"
	for text, want := range map[string]string{
		"    - {name: nvidia, settings: {mig: {strategy: mixd}}}\n": `profiles[0].backends[0].settings.mig.strategy: must be one of none, single, mixed, dynamic, is "mixd"; did you mean "mixed"?`,
		"    - {name: nvida}\n":                     `profiles[0].backends[0].name: no backend nvida is installed in ` + bin + `; did you mean "nvidia"?`,
		"    - {name: mock, settings: {count: 4}\n": `node.yaml:7: this is not YAML`,
		"    - {name: mock}\nprofile: other\n":      `node.yaml: no profile "other"; the configuration has default`,
		"    - {name: acme, settings: {a: b}, allow: {declared: accept}}\n    - {name: mock}\n": "",
	} {
		job, config := configCheck(t, render(t, with("-f", write(t, "values.yaml", header+text))...))
		if want == "" {
			runConfigCheck(t, job, config, true, "not checked: the settings of accelmux-backend-acme, and the names of its attributes: it is not installed in "+bin)
		} else {
			runConfigCheck(t, job, config, false, want)
		}
	}
}

// TestTerminationMessages verifies that the API server has the end of the log of each container that failed: a program
// that has refused its configuration writes no other message.
func TestTerminationMessages(t *testing.T) {
	for name, args := range valueSets(t) {
		for _, object := range render(t, args...) {
			var pod corev1.PodSpec
			switch o := object.(type) {
			case *appsv1.DaemonSet:
				pod = o.Spec.Template.Spec
			case *appsv1.Deployment:
				pod = o.Spec.Template.Spec
			case *batchv1.Job:
				pod = o.Spec.Template.Spec
			}
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				if c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
					t.Errorf("%s: container %s has the policy %q", name, c.Name, c.TerminationMessagePolicy)
				}
			}
		}
	}
}
