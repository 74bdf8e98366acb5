package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	v1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// cluster makes an API server and has the agent use it.
func (n *node) cluster() *clustertest.Server {
	n.Helper()
	server := clustertest.New(n.T, "node-1", nil)
	kubeconfig := filepath.Join(n.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "` + server.URL() + `"}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		n.Fatal(err)
	}
	n.agent.Args = append(n.agent.Args, "--kubeconfig", kubeconfig)
	return server
}

// TestParametersFromThePod verifies that a container's annotation reaches its
// environment: from PreStartContainer alone the agent finds the pod in kubelet's own
// pod-resources API, while kubelet waits for the answer. A kubelet that has just
// started is left alone for 10 s first, but not by a container that ran before.
func TestParametersFromThePod(t *testing.T) {
	n := newNode(t, realkubelet.Options{})
	api := n.cluster()
	n.startKubelet()
	config := mock{Count: 2, Prepare: true}.config(n)
	config.Resources[0].Parameters = map[string]agent.Parameter{"message": {Annotation: "example.com/message"}}
	n.configure(config)
	n.startAgent()
	n.wantCounts(gpu, 2, 2)

	pod := realkubelet.NewPod("pod", map[string]int64{gpu: 2})
	pod.Annotations = map[string]string{"example.com/message": "first"}
	api.SetPod(*pod.DeepCopy())
	if err := n.kubelet.Admit(n.soon(), pod); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	n.wantEnv(pod, "ACCELMUX_MOCK_MESSAGE=first")
	t.Logf("the first start took %v", time.Since(began).Round(time.Millisecond))
	n.eventually("the agent knows the pod by name", func() bool {
		d := n.device(n.held(pod, gpu)[0])
		return len(d.Holders) == 1 && d.Holders[0].Pod == "pod"
	})

	n.restartKubelet(gpu, 2)
	pod.Annotations["example.com/message"] = "second"
	api.SetPod(*pod.DeepCopy())
	before := len(n.agent.Log())
	n.wantEnv(pod, "ACCELMUX_MOCK_MESSAGE=second")
	t.Run("at once", func(t *testing.T) {
		realkubelet.PodResourcesGet.Need(t, n.kubelet.Release())
		if log := n.agent.Log()[before:]; strings.Contains(log, "a container waits for its start") {
			t.Errorf("a container that ran before was made to wait:\n%s", log)
		}
	})
	if ids := n.held(pod, gpu); len(ids) != 2 {
		t.Errorf("kubelet has forgotten what the pod holds: %v", ids)
	}
}

// wantEnv starts the pod's container, and wants that a runtime sets the variable.
func (n *node) wantEnv(pod *v1.Pod, entry string) {
	n.Helper()
	names := n.cdiNames(n.startContainer(pod))
	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.agent.CDIDir()), cdi.WithAutoRefresh(false))
	if err != nil {
		n.Fatal(err)
	}
	spec := &oci.Spec{Process: &oci.Process{}}
	if _, err := cache.InjectDevices(spec, names...); err != nil {
		n.Fatal(err)
	}
	if !slices.Contains(spec.Process.Env, entry) {
		n.Errorf("the container's environment is %q, want %s in it", spec.Process.Env, entry)
	}
}
