package node

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/status/listing"
)

const (
	namespace = "accelmux-system"
	release   = "accelmux"
	// gpu is the resource that most tests ask for.
	gpu = "example.com/gpu"
)

// values are the chart's.
type values map[string]any

// eightGPUs are four mock devices on each of two NUMA nodes, as one resource.
const eightGPUs = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 8, numaNodes: 2, scenarioFile: /run/play/scenario.yaml}
    resources:
      - name: example.com/gpu
`

// install puts the chart on the cluster, as the README tells an operator to, and
// waits until the agent is ready. What is in more replaces usual values.
func (n *node) install(config string, more ...values) {
	n.Helper()
	n.prepareNamespace()
	n.helm("install", "--wait", "--values="+n.values(config, more...))
}

// installExample installs the chart with the values of one of its examples, changed by
// the test: the values, and the profiles of their configuration.
func (n *node) installExample(name string, change func(example values, profiles []map[string]any)) {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "examples", name+".yaml"))
	if err != nil {
		n.Fatal(err)
	}
	var example values
	var config struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Profiles   []map[string]any `json:"profiles"`
	}
	if err := yaml.Unmarshal(text, &example); err != nil {
		n.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(example["config"].(string)), &config); err != nil {
		n.Fatal(err)
	}
	change(example, config.Profiles)
	changed, err := yaml.Marshal(config)
	if err != nil {
		n.Fatal(err)
	}
	delete(example, "config")
	// No feature discovery runs here.
	example["nodeFeatureDiscovery"] = values{"pciVendors": []string{}}
	n.install(string(changed), example)
}

// mountInBackend replaces what an example mounts in a backend's container.
func mountInBackend(example values, backend string, mounts ...values) {
	example["backendContainers"].(map[string]any)[backend].(map[string]any)["volumeMounts"] = mounts
}

// prepareNamespace makes the namespace, where privileged pods are allowed, if it
// is not there.
func (n *node) prepareNamespace() {
	n.Helper()
	_, err := client.CoreV1().Namespaces().Create(n.soon(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		n.Fatal(err)
	}
}

// upgrade changes the release, and waits until the DaemonSet is rolled out.
func (n *node) upgrade(config string, more ...values) {
	n.Helper()
	n.helm("upgrade", "--wait", "--values="+n.values(config, more...))
}

// readProcFrom tells the agent to use another procfs: a container's own cannot be
// faked, and nobody but tests needs another one, so the chart has no value for it.
func (n *node) readProcFrom(procfs string) {
	n.Helper()
	patch := `[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--procfs=` + procfs + `"}]`
	_, err := client.AppsV1().DaemonSets(namespace).Patch(n.soon(), release, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		n.Fatal(err)
	}
	n.must("kubectl", "--namespace="+namespace, "rollout", "status", "daemonset/"+release)
}

// helm does something with the release.
func (n *node) helm(verb string, flags ...string) {
	n.Helper()
	args := []string{verb, release}
	if verb != "rollback" {
		args = append(args, chart)
	}
	n.installed = true
	// helm ends before it is killed, and says what it waits for.
	ctx, cancel := context.WithTimeout(context.Background(), patience+time.Minute)
	defer cancel()
	args = append(args, "--namespace="+namespace, "--timeout="+patience.String())
	if _, err := run(ctx, "helm", append(args, flags...)...); err != nil {
		n.Fatal(err)
	}
}

// values writes the chart's values to a file.
func (n *node) values(config string, more ...values) string {
	n.Helper()
	all := values{
		"image":             values{"repository": "localhost/accelmux", "tag": "dev"},
		"config":            config,
		"log":               values{"level": "debug", "format": "text"},
		"extraVolumes":      []values{{"name": "play", "hostPath": values{"path": playDir}}},
		"extraVolumeMounts": []values{{"name": "play", "mountPath": playDir}},
		// TestMockExample and TestRefusedConfiguration have it.
		"configCheck": values{"enabled": false},
	}
	for _, m := range more {
		maps.Copy(all, m)
	}
	data, err := yaml.Marshal(all)
	if err != nil {
		n.Fatal(err)
	}
	path := filepath.Join(n.TempDir(), "values.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		n.Fatal(err)
	}
	return path
}

// uninstall takes the chart away, waits until the agent has gone, and checks that
// it left nothing that lives: no socket, and no CDI spec but those of devices that
// it believes to be held. It believes that for a while after a pod's end.
func (n *node) uninstall() {
	n.Helper()
	known, err := devices(n.soon())
	held := err != nil || slices.ContainsFunc(known, func(d listing.Device) bool { return len(d.Holders) > 0 })
	n.must("helm", "uninstall", release, "--namespace="+namespace, "--ignore-not-found")
	n.must("kubectl", "delete", "jobs", "--all", "--namespace="+namespace) // of a configuration that was refused
	n.eventually("the agent's pod is gone", func() bool {
		pods, err := client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0
	})
	// Kubelet deletes them 30 s after a driver is gone; the next test is not to see them.
	if err := client.ResourceV1().ResourceSlices().DeleteCollection(n.soon(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		n.Error(err)
	}
	if !n.installed {
		return
	}
	n.installed = false
	left, err := filepath.Glob(filepath.Join(devicePluginDir, "accelmux*"))
	if err != nil {
		n.Error(err)
	}
	specs, err := filepath.Glob(filepath.Join(cdiDir, "*"))
	if err != nil {
		n.Error(err)
	}
	if !held {
		left = append(left, specs...)
	}
	if len(left) > 0 {
		n.Errorf("the agent left behind: %q", left)
	}
}

// empty removes what is in a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return err
}

// play tells the mock what happens to its devices, see backends/mock/README.md.
func (n *node) play(scenario string) {
	n.Helper()
	temporary := filepath.Join(playDir, "new")
	if err := os.WriteFile(temporary, []byte(scenario), 0o600); err != nil {
		n.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(playDir, "scenario.yaml")); err != nil {
		n.Fatal(err)
	}
}

// agentPod is the pod of the agent that is not about to end.
func (n *node) agentPod() *v1.Pod {
	n.Helper()
	pod, err := until(n.soon(), client.CoreV1().Pods(namespace), fields.Everything(), func(pod *v1.Pod) bool {
		return pod.DeletionTimestamp == nil && ready(pod)
	})
	if err != nil {
		n.Fatalf("no agent's pod is ready: %v", err)
	}
	return pod
}
