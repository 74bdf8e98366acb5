package deployments

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// featuresDir is where Node Feature Discovery reads feature files.
const featuresDir = "/etc/kubernetes/node-feature-discovery/features.d"

func agentContainer(t *testing.T, objects []runtime.Object) corev1.Container {
	t.Helper()
	containers := only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec.Containers
	if containers[0].Name != "accelmux" {
		t.Fatalf("the first container is %s", containers[0].Name)
	}
	return containers[0]
}

// backendContainer returns the container of a backend in the agent's pod.
func backendContainer(t *testing.T, objects []runtime.Object, backend string) corev1.Container {
	t.Helper()
	for _, c := range only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec.Containers {
		if c.Name == "backend-"+backend {
			return c
		}
	}
	t.Fatalf("the backend %s has no container", backend)
	return corev1.Container{}
}

// TestMounts verifies what of the node the agent may write to, and that every
// directory it is told of is there.
func TestMounts(t *testing.T) {
	for name, args := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			objects := render(t, args...)
			pod := only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec
			container := agentContainer(t, objects)
			volumes := map[string]corev1.Volume{}
			for _, v := range pod.Volumes {
				volumes[v.Name] = v
			}
			var writable, mounted []string
			for _, m := range container.VolumeMounts {
				v, ok := volumes[m.Name]
				if !ok {
					t.Errorf("no volume %s", m.Name)
				}
				if v.HostPath != nil && strings.Contains(v.HostPath.Path, "kubelet") && m.MountPath != v.HostPath.Path {
					t.Errorf("%s of the node is mounted at %s: kubelet cannot use the paths of the sockets in it", v.HostPath.Path, m.MountPath)
				}
				if !m.ReadOnly && v.HostPath != nil {
					writable = append(writable, m.MountPath)
				}
				if !m.ReadOnly && v.HostPath == nil && v.EmptyDir == nil {
					t.Errorf("%s is writable", m.MountPath)
				}
				if v.ConfigMap != nil && m.SubPath != "" {
					t.Errorf("%s is a subPath of a ConfigMap, whose changes would never be seen", m.MountPath)
				}
				mounted = append(mounted, m.MountPath)
			}
			// The runtime makes a file there.
			if over := mountOf(container, container.TerminationMessagePath); over.MountPath == "" || over.ReadOnly {
				t.Errorf("the termination message is at %q, in the mount %+v", container.TerminationMessagePath, over)
			}
			// Only device-plugins stays where it is with another root directory of kubelet.
			plugins, kubelet := "/var/lib/kubelet/device-plugins", "/var/lib/kubelet"
			if name == "everything" {
				plugins = "/var/snap/acme/kubelet/device-plugins"
			}
			if name == "everything" || name == "claims elsewhere" {
				kubelet = "/var/lib/k0s/kubelet"
			}
			want := []string{plugins, kubelet + "/plugins_registry", "/var/run/cdi", "/var/lib/accelmux"}
			if strings.HasPrefix(name, "example dra") || name == "claims elsewhere" {
				want = slices.Insert(want, 2, kubelet+"/plugins")
			}
			if slices.Contains(container.Args, "--features-dir="+featuresDir) {
				want = append(want, featuresDir)
			}
			if name == "NVIDIA client" {
				want = slices.Insert(want, slices.Index(want, "/var/lib/accelmux")+1, "/run/accelmux")
			}
			if diff := cmp.Diff(want, writable); diff != "" {
				t.Errorf("writable (-want +got):\n%s", diff)
			}
			for _, arg := range container.Args {
				flag, value, _ := strings.Cut(arg, "=")
				switch flag {
				case "--config":
					value = path.Dir(value)
				case "--kubelet-dir":
					value = path.Join(value, "device-plugins")
				case "--kubelet-root-dir":
					value = path.Join(value, "pod-resources")
				case "--cdi-dir", "--state-dir", "--run-dir", "--features-dir", "--sysfs", "--devfs":
				default:
					continue
				}
				if !slices.Contains(mounted, value) {
					t.Errorf("%s is not mounted", arg)
				}
			}
		})
	}
}

// mountOf is the mount that a file of the container is in, the innermost one.
func mountOf(c corev1.Container, file string) (in corev1.VolumeMount) {
	for _, m := range c.VolumeMounts {
		if strings.HasPrefix(file, m.MountPath+"/") && len(m.MountPath) > len(in.MountPath) {
			in = m
		}
	}
	return in
}

// TestNothingIsPrivileged verifies that the agent has no right that it does not
// need, unless it is given all.
func TestNothingIsPrivileged(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, render(t, mockValues...)).Spec.Template.Spec
	yes, no := true, false
	if diff := cmp.Diff(&corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Error("no seccomp profile")
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("a namespace of the host")
	}
}

// TestBackendContainer verifies that the rights of a backend's container are its own: the agent's container changes by
// the directory that both share, and that container sees no other of the agent's.
func TestBackendContainer(t *testing.T) {
	without := agentContainer(t, render(t, mockValues...))
	pod := only[*appsv1.DaemonSet](t, render(t, with("--set", "backendContainers.mock.securityContext.privileged=true")...)).Spec.Template.Spec
	if len(pod.Containers) != 2 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	agent, backend := pod.Containers[0], pod.Containers[1]
	yes := true
	if diff := cmp.Diff(&corev1.SecurityContext{Privileged: &yes, ReadOnlyRootFilesystem: &yes}, backend.SecurityContext); diff != "" {
		t.Errorf("its rights (-want +got):\n%s", diff)
	}
	var mounts []string
	for _, m := range backend.VolumeMounts {
		mounts = append(mounts, m.MountPath)
	}
	if diff := cmp.Diff([]string{"/run/accelmux-backends/mock", "/var/lib/accelmux/backends/mock", "/host/dev", "/host/sys"}, mounts); diff != "" {
		t.Errorf("it sees (-want +got):\n%s", diff)
	}
	without.Args = append(without.Args, "--launcher=accelmux-backend-mock=/run/accelmux-backends/mock/shared/launcher.sock")
	without.VolumeMounts = append(without.VolumeMounts, backend.VolumeMounts[0])
	byPath := func(a, b corev1.VolumeMount) int { return strings.Compare(a.MountPath, b.MountPath) }
	for _, c := range []*corev1.Container{&without, &agent} {
		slices.Sort(c.Args)
		slices.SortFunc(c.VolumeMounts, byPath)
	}
	if diff := cmp.Diff(without, agent); diff != "" {
		t.Errorf("the agent's container (-want +got):\n%s", diff)
	}
}

// TestHostPID verifies that the value gives the node's PID namespace and nothing else, and that
// of the vendors' examples only those whose devices the agent looks at before a reset have it.
func TestHostPID(t *testing.T) {
	without := only[*appsv1.DaemonSet](t, render(t, mockValues...)).Spec.Template.Spec
	pod := only[*appsv1.DaemonSet](t, render(t, with("--set", "hostPID=true")...)).Spec.Template.Spec
	without.HostPID = true
	if diff := cmp.Diff(without, pod); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, example := range []string{"amd.yaml", "fpga.yaml", "nvidia-mps.yaml", "nvidia.yaml"} {
		pod := only[*appsv1.DaemonSet](t, render(t, valueSets(t)["example "+example]...)).Spec.Template.Spec
		if pod.HostPID != (example == "amd.yaml" || example == "fpga.yaml") {
			t.Errorf("%s: the node's PID namespace: %v", example, pod.HostPID)
		}
	}
}

// TestThirdParty verifies that a program of a third party and what the agent reads of it come beside the own ones, as files
// that nobody can change, for all that read them: the agent, the launcher in the backend's container, and the webhook.
func TestThirdParty(t *testing.T) {
	objects := render(t, append(valueSets(t)["example third-party.yaml"], "--set", "webhook.enabled=true,extraBackends[0].files[0]=settings.schema.json")...)
	pod, webhook := only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec, only[*appsv1.Deployment](t, objects).Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 2 {
		t.Fatalf("%d init containers and %d containers, want 1 and 2", len(pod.InitContainers), len(pod.Containers))
	}
	shared := pod.InitContainers[0].VolumeMounts[0]
	for _, container := range append(pod.Containers, webhook.Containers[0]) {
		for _, file := range []string{"accelmux-backend-acme", "accelmux-backend-acme.yaml", "accelmux-backend-acme.settings.schema.json"} {
			want := corev1.VolumeMount{Name: shared.Name, MountPath: "/usr/libexec/accelmux/" + file, SubPath: file, ReadOnly: true}
			if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return cmp.Equal(m, want) }) {
				t.Errorf("%s has %+v, want one of them to be %+v", container.Name, container.VolumeMounts, want)
			}
		}
		if !slices.Contains(container.Args, "--backend-dir=/usr/libexec/accelmux") {
			t.Errorf("%s does not look for backends there", container.Name)
		}
	}
}

// TestUpdates verifies that the new agent comes before the old one goes, unless the values say otherwise, and
// that its run directory, where the two must not meet, is the pod's own.
func TestUpdates(t *testing.T) {
	rolling := func(surge, unavailable intstr.IntOrString) appsv1.DaemonSetUpdateStrategy {
		return appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &surge, MaxUnavailable: &unavailable}}
	}
	none := intstr.FromInt32(0)
	for set, want := range map[string]appsv1.DaemonSetUpdateStrategy{
		"profile=": rolling(intstr.FromInt32(1), none),
		"updateStrategy.rollingUpdate.maxSurge=20%": rolling(intstr.FromString("20%"), none),
		"updateStrategy.type=OnDelete":              {Type: appsv1.OnDeleteDaemonSetStrategyType},
	} {
		daemonSet := only[*appsv1.DaemonSet](t, render(t, with("--set", set)...))
		if diff := cmp.Diff(want, daemonSet.Spec.UpdateStrategy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", set, diff)
		}
		pod := daemonSet.Spec.Template.Spec
		if !slices.Contains(pod.Containers[0].Args, "--take-over") {
			t.Error("the new agent does not take over")
		}
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "run" && v.EmptyDir != nil }) {
			t.Error("the run directory is not the pod's own")
		}
	}
}

// TestProbes verifies that kubelet asks the agent at the port where it answers.
func TestProbes(t *testing.T) {
	agent := agentContainer(t, render(t, with("--set", "probes.port=1235")...))
	if !slices.Contains(agent.Args, "--probe-address=:1235") || !slices.ContainsFunc(agent.Ports, func(p corev1.ContainerPort) bool { return p.Name == "probes" && p.ContainerPort == 1235 }) {
		t.Errorf("the agent has the arguments %v, the ports %v", agent.Args, agent.Ports)
	}
	for path, probes := range map[string][]*corev1.Probe{"/livez": {agent.StartupProbe, agent.LivenessProbe}, "/readyz": {agent.ReadinessProbe}} {
		for _, probe := range probes {
			if get := probe.HTTPGet; get == nil || get.Path != path || get.Port.StrVal != "probes" {
				t.Errorf("a probe is %+v, want %s of the port probes", probe.ProbeHandler, path)
			}
		}
	}
}

// TestExtras verifies that the pod has what the values add to it.
func TestExtras(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, render(t, with("--set-json", `extraEnv=[{"name": "HTTPS_PROXY", "value": "x"}]`,
		"--set-json", `extraArgs=["--log-level=debug"]`, "--set-json", `podSecurityContext={"supplementalGroups": [44], "seccompProfile": {"type": "Unconfined"}}`)...)).Spec.Template.Spec
	agent := pod.Containers[0]
	if agent.Args[len(agent.Args)-1] != "--log-level=debug" || agent.Env[len(agent.Env)-1] != (corev1.EnvVar{Name: "HTTPS_PROXY", Value: "x"}) {
		t.Errorf("the arguments are %v, the variables %v", agent.Args, agent.Env)
	}
	want := &corev1.PodSecurityContext{RunAsUser: new(int64), RunAsGroup: new(int64), SupplementalGroups: []int64{44}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
	if diff := cmp.Diff(want, pod.SecurityContext); diff != "" {
		t.Errorf("securityContext (-want +got):\n%s", diff)
	}
}

// TestNetworkPolicy verifies that it selects the agents, and lets in those that may scrape and nobody else.
func TestNetworkPolicy(t *testing.T) {
	const peers = `[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]`
	for set, want := range map[string]int{"[]": 0, peers: 1} {
		objects := render(t, with("--set", "networkPolicy.enabled=true", "--set-json", "networkPolicy.metricsFrom="+set)...)
		policy := only[*networkingv1.NetworkPolicy](t, objects)
		of := labels.Set(only[*appsv1.DaemonSet](t, objects).Spec.Template.Labels)
		if !labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(of) || len(policy.Spec.Ingress) != want || len(policy.Spec.PolicyTypes) != 1 {
			t.Errorf("with %s the policy is %+v", set, policy.Spec)
		}
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) != 1 || len(rule.Ports) != 1 || rule.Ports[0].Port.StrVal != "metrics" {
				t.Errorf("it lets in %+v", rule)
			}
		}
	}
}

// TestNodesByFeature verifies that the labels that Node Feature Discovery gives
// by default, and those without a class, choose the nodes.
func TestNodesByFeature(t *testing.T) {
	args := with("--set-json", `nodeFeatureDiscovery.pciVendors=["10de", "1002"]`, "--set-json", `affinity={"podAffinity": {}}`)
	affinity := only[*appsv1.DaemonSet](t, render(t, args...)).Spec.Template.Spec.Affinity
	var keys []string
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchExpressions) != 1 {
			t.Fatalf("%+v has to match as a whole", term)
		}
		keys = append(keys, term.MatchExpressions[0].Key)
	}
	for _, want := range []string{"pci-10de.present", "pci-0302_10de.present", "pci-1002.present", "pci-1200_1002.present"} {
		if !slices.Contains(keys, "feature.node.kubernetes.io/"+want) {
			t.Errorf("no node with %s; those with one of %v", want, keys)
		}
	}
	if affinity.PodAffinity == nil {
		t.Error("the rest of the affinity is gone")
	}
	if pod := only[*appsv1.DaemonSet](t, render(t, mockValues...)).Spec.Template.Spec; pod.Affinity != nil {
		t.Errorf("without vendors: %+v, want all nodes", pod.Affinity)
	}
}
