package deployments

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

var mockValues = []string{"-f", chart + "/examples/mock.yaml", "--set", "image.repository=registry.example.com/accelmux"}

func with(args ...string) []string { return slices.Concat(mockValues, args) }

// TestChartIsClean verifies that helm finds nothing to say about the chart, with
// its own values and with every set of values.
func TestChartIsClean(t *testing.T) {
	sets := valueSets(t)
	sets["its own values"] = nil
	for name, args := range sets {
		t.Run(name, func(t *testing.T) {
			must(t, helm, append([]string{"lint", "--strict", chart}, args...)...)
		})
	}
}

// TestObjectsAreExact verifies that every rendered object has only fields that
// its type has, belongs to the release's namespace or says why not, and carries
// the common labels.
func TestObjectsAreExact(t *testing.T) {
	for name, args := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, args...) {
				m, err := meta.Accessor(object)
				if err != nil {
					t.Fatal(err)
				}
				kind := object.GetObjectKind().GroupVersionKind().Kind
				want := namespace
				switch kind {
				case "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "DeviceClass":
					want = ""
				case "Role", "RoleBinding": // Events about Nodes are kept there
					want = "default"
				}
				if m.GetNamespace() != want {
					t.Errorf("%s %s is in namespace %q, want %q", kind, m.GetName(), m.GetNamespace(), want)
				}
				for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart"} {
					if m.GetLabels()[label] == "" {
						t.Errorf("%s %s has no label %s", kind, m.GetName(), label)
					}
				}
			}
		})
	}
}

// TestNodeConfigurationIsValid verifies that the agent would take on what the
// ConfigMap holds, with the profile that the DaemonSet names.
func TestNodeConfigurationIsValid(t *testing.T) {
	for name, args := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			objects := render(t, args...)
			text := only[*corev1.ConfigMap](t, objects).Data["node.yaml"]
			out := must(t, filepath.Join(bin, "accelmux"), "validate", write(t, "node.yaml", text))
			for _, arg := range agentContainer(t, objects).Args {
				if profile, ok := strings.CutPrefix(arg, "--profile="); ok && !strings.Contains(out, "profile "+profile+" is valid") {
					t.Errorf("the DaemonSet names profile %s, which the configuration does not have:\n%s", profile, out)
				}
			}
		})
	}
}

// TestConfigurationTextIsKept verifies that a configuration given as text arrives
// to the letter, and that one given as a mapping keeps large numbers.
func TestConfigurationTextIsKept(t *testing.T) {
	text := "# A comment.\napiVersion: accelmux.io/v1alpha1\nkind: NodeConfig # and another\nprofiles:\n  - name: default\n    backends: [{name: mock, settings: {memory: 85899345920}}]\n"
	indented := "config: |\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	config := only[*corev1.ConfigMap](t, render(t, with("-f", write(t, "values.yaml", indented))...))
	if diff := cmp.Diff(text, config.Data["node.yaml"]); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	config = only[*corev1.ConfigMap](t, render(t, "-f", chart+"/examples/shared.yaml", "--set", "image.repository=x"))
	if !strings.Contains(config.Data["node.yaml"], "memory: 85899345920\n") {
		t.Errorf("a large number did not survive:\n%s", config.Data["node.yaml"])
	}
}

// TestValuesAreStrict verifies that wrong values are refused, with the place.
func TestValuesAreStrict(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		want   []string
	}{
		"unknown value":          {"imag: {tag: x}", []string{"imag"}},
		"unknown nested value":   {"image: {tagg: x}", []string{"/image", "tagg"}},
		"wrong type":             {"hostPID: yes please", []string{"/hostPID"}},
		"digest":                 {"image: {digest: latest}", []string{"/image/digest"}},
		"relative path":          {"hostPaths: {cdi: run/cdi}", []string{"/hostPaths/cdi"}},
		"vendor with prefix":     {`nodeFeatureDiscovery: {pciVendors: ["0x10de"]}`, []string{"/nodeFeatureDiscovery/pciVendors/0"}},
		"nothing may be updated": {"updateStrategy: {rollingUpdate: {maxSurge: 0}}", []string{"/updateStrategy/rollingUpdate"}},
		"program with path":      {"extraBackends: [{program: ../sh, image: x}]", []string{"/extraBackends/0/program"}},
		"typo in the configuration": {
			"config: {profiles: [{name: default, bakends: []}]}", []string{"/config/profiles/0", "bakends"},
		},
		"two monitors": {
			"{podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}", []string{"would scrape every agent twice"},
		},
		"two servers at a port": {"{metrics: {port: 80}, probes: {port: 80}}", []string{"metrics.port and probes.port must differ"}},
		"a monitor of nothing":  {"{podMonitor: {enabled: true}, metrics: {enabled: false}}", []string{"need metrics.enabled"}},
		"two ways to choose nodes": {
			"{nodeFeatureDiscovery: {pciVendors: [\"10de\"]}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}}",
			[]string{"set only one of them"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := template(t, with("-f", write(t, "values.yaml", tc.values))...)
			if err == nil {
				t.Fatalf("taken:\n%s", out)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the message lacks %q: %v", want, err)
				}
			}
		})
	}
}

// TestPodsAreRead verifies that the agent may read pods where its configuration takes
// something from them, however that is given, and nowhere else.
func TestPodsAreRead(t *testing.T) {
	const config = `{apiVersion: accelmux.io/v1alpha1, kind: NodeConfig, profiles: [{name: a, backends: [{name: mock}]}, ` +
		`{name: b, backends: [{name: mock}], resources: [{name: example.com/a}, {name: example.com/b, parameters: {c: {value: d}, message: PARAMETER}}]}]}`
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	for parameter, want := range map[string]bool{
		"{value: a}": false, `{value: a, env: ""}`: false, "{annotation: example.com/message}": true, "{value: a, env: MESSAGE}": true,
	} {
		text := strings.Replace(config, "PARAMETER", parameter, 1)
		for form, values := range map[string]string{"mapping": "config: " + text, "text": "config: |\n  # A comment.\n  " + text} {
			path := write(t, "parameters.yaml", values)
			rules := only[*rbacv1.ClusterRole](t, render(t, with("-f", path)...)).Rules
			if got := slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return cmp.Equal(r, rule) }); got != want || len(rules) > 2 {
				t.Errorf("%s, as %s: the rules are %v, want one for pods: %v", parameter, form, rules, want)
			}
			_, err := template(t, with("-f", path, "--set", "rbac.create=false")...)
			if (err == nil) == want || err != nil && !strings.Contains(err.Error(), "which the agent reads from the pod at the API server: that needs rbac.create") {
				t.Errorf("%s, as %s, without rights: %v", parameter, form, err)
			}
		}
	}
	for _, text := range []string{"[a]", "profiles: {a: b}", "profiles: [a, {resources: b}]", "profiles: [{resources: [c, {parameters: [d]}, {parameters: {e: f}}]}]", "a: ]"} {
		if _, err := template(t, with("-f", write(t, "parameters.yaml", "config: |\n  "+text))...); err != nil {
			t.Errorf("what is for the agent to refuse is refused by the chart: %s: %v", text, err)
		}
	}
}

// TestRightsAtTheAPIServer verifies that there are these and no others, and no
// token where there are none.
func TestRightsAtTheAPIServer(t *testing.T) {
	objects := render(t, mockValues...)
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
	}, only[*rbacv1.ClusterRole](t, objects).Rules); diff != "" {
		t.Errorf("cluster role (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}, only[*rbacv1.Role](t, objects).Rules); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}
	account := only[*corev1.ServiceAccount](t, objects)
	pod := only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec
	if pod.ServiceAccountName != account.Name || !*pod.AutomountServiceAccountToken || *account.AutomountServiceAccountToken {
		t.Errorf("the token goes to account %q of the pod, %q exists", pod.ServiceAccountName, account.Name)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: namespace}}
	if diff := cmp.Diff(subjects, only[*rbacv1.ClusterRoleBinding](t, objects).Subjects); diff != "" {
		t.Errorf("cluster role binding (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(subjects, only[*rbacv1.RoleBinding](t, objects).Subjects); diff != "" {
		t.Errorf("role binding (-want +got):\n%s", diff)
	}
	pod = only[*appsv1.DaemonSet](t, render(t, with("--set", "rbac.create=false")...)).Spec.Template.Spec
	if *pod.AutomountServiceAccountToken {
		t.Error("a token without rights")
	}
}

const nodeConfigMarker = "  \"$defs\": {\n    \"nodeConfig\": "

// TestSchemaHasTheNodeConfiguration verifies that the values' schema includes the
// node configuration's as it is now, so that a typo in it is refused before it
// reaches a cluster.
func TestSchemaHasTheNodeConfiguration(t *testing.T) {
	path := chart + "/values.schema.json"
	have := string(read(t, path))
	before, _, ok := strings.Cut(have, nodeConfigMarker)
	if !ok {
		t.Fatalf("%s has no %q", path, nodeConfigMarker)
	}
	want := before + nodeConfigMarker + indent(t, read(t, "deployments/schema/nodeconfig.json"), "    ") + "\n  }\n}\n"
	current(t, path, want, have)
}

// current says what to do about a generated file that is not as it should be, or
// writes it.
func current(t *testing.T, path, want, have string) {
	t.Helper()
	if want == have {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: run `make manifests` (-want +have):\n%s", path, cmp.Diff(want, have))
	}
	if err := os.WriteFile(filepath.Join(root, path), []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
