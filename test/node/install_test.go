package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/status"
)

// TestInstallationsAreAccepted verifies that the API server accepts what the chart
// renders for each set of values that the project ships, and the manifests: it checks
// more than the types, such as that no two volumes are mounted in one place.
func TestInstallationsAreAccepted(t *testing.T) {
	n := begin(t)
	n.prepareNamespace()
	deployments := filepath.Join(chart, "../..")
	sets, err := filepath.Glob(filepath.Join(chart, "examples/*.yaml"))
	if err != nil || len(sets) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	installations := map[string]string{"manifests": filepath.Join(deployments, "manifests/accelmux.yaml")}
	for _, set := range append(sets, filepath.Join(deployments, "kind/values.yaml")) {
		rendered := n.must("helm", "template", release, chart, "--namespace="+namespace, "--values="+set, "--set=image.repository=localhost/accelmux")
		path := filepath.Join(t.TempDir(), "rendered.yaml")
		if err := os.WriteFile(path, []byte(rendered), 0o600); err != nil {
			t.Fatal(err)
		}
		installations[set] = path
	}
	for name, path := range installations {
		t.Run(filepath.Base(name), func(t *testing.T) {
			if out, err := run(t.Context(), "kubectl", "apply", "--dry-run=server", "--filename="+path); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		})
	}
}

// TestMockExample verifies that the example for nodes without hardware shows what its
// comment promises: devices with links, and one that the ConfigMap breaks.
func TestMockExample(t *testing.T) {
	n := begin(t)
	n.prepareNamespace()
	scenario := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "accelmux-scenario"},
		Data:       map[string]string{"scenario.yaml": "devices: {mock-0: {fault: {code: xid-79, recovery: self}}}"},
	}
	if _, err := client.CoreV1().ConfigMaps(namespace).Create(n.soon(), scenario, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().ConfigMaps(namespace).Delete(n.soon(), scenario.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	n.helm("install", "--wait", "--values="+filepath.Join(chart, "examples/mock.yaml"), "--set=image.repository=localhost/accelmux,image.tag=dev")
	n.wantCounts(gpu, 8, 7)
	agent := n.agentPod()
	if links := n.must("kubectl", "exec", "--namespace="+namespace, agent.Name, "--", "accelmux", "topology"); !strings.Contains(links, "NV") {
		t.Errorf("the devices have no links:\n%s", links)
	}
}

// Verifies that a backend in the agent's container has a user of its own, if the chart's values say so.
func TestBackendUsers(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs, values{"backendUsers": true})
	n.wantCounts(gpu, 8, 8)
	n.wantReport("the backend has a user of its own", func(now status.Report) bool {
		return len(now.Backends) == 1 && now.Backends[0].Sandbox != nil && slices.ContainsFunc(now.Backends[0].Sandbox.Measures, func(m sandbox.Measure) bool { return m.Name == sandbox.User && m.InForce })
	})
}

// Verifies that a backend runs in a container of its own, as another user, with a directory for its state and devices
// for pods; that the agent's container has no process of it; and that neither its end nor an upgrade costs a device.
func TestBackendContainer(t *testing.T) {
	n := begin(t)
	own := values{"backendContainers": values{"mock": values{
		"securityContext": values{"runAsUser": 61190, "runAsGroup": 61190, "runAsNonRoot": true},
		"volumeMounts":    []values{{"name": "play", "mountPath": playDir, "readOnly": true}},
	}}}
	config := strings.Replace(eightGPUs, "count: 8,", "count: 8, changeLog: /var/lib/accelmux/backends/mock/changes,", 1)
	n.install(config, own)
	n.wantCounts(gpu, 8, 8)
	pod := n.start("one", gpu, 2)
	agent := n.agentPod().Name
	if running := n.must("kubectl", "exec", "--namespace="+namespace, agent, "--container=backend-mock", "--", "/usr/bin/accelmux", "version"); !strings.Contains(running, "accelmux") {
		t.Errorf("the backend's container has %q", running)
	}
	if _, err := run(n.soon(), "kubectl", "exec", "--namespace="+namespace, agent, "--container=backend-mock", "--", "/usr/bin/accelmux", "devices"); err == nil {
		t.Error("the backend's container reaches the agent's admin socket")
	}
	w := n.watch(gpu)
	n.kill("accelmux-backend-mock")
	n.wantReport("the backend runs again", func(now status.Report) bool {
		return len(now.Backends) == 1 && now.Backends[0].State == "running" && now.Backends[0].Restarts == 1
	})
	n.upgrade(config, own, values{"podAnnotations": values{"example.com/upgraded": "yes"}})
	w.wantNoDip()
	n.wantCounts(gpu, 8, 8)
	n.wantUntouched(pod)
}
