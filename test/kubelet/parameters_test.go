package kubelet

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	v1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// cluster is an API server that has pods only.
type cluster struct {
	mu   sync.Mutex
	pods map[string]*v1.Pod
}

// cluster makes an API server and has the agent use it.
func (n *node) cluster() *cluster {
	n.Helper()
	api := &cluster{pods: map[string]*v1.Pod{}}
	server := httptest.NewServer(api)
	n.Cleanup(server.Close)
	kubeconfig := filepath.Join(n.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		n.Fatal(err)
	}
	n.agent.Args = append(n.agent.Args, "--kubeconfig", kubeconfig)
	return api
}

// set makes the pod what it is for the API server from now on.
func (c *cluster) set(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := pod.DeepCopy()
	seen.Spec.NodeName = "node-1"
	c.pods[pod.Namespace+"/"+pod.Name] = seen
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	place, isPod := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	pod := c.pods[strings.Replace(place, "/pods/", "/", 1)]
	if !isPod || pod == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(pod) // the agent may have gone
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
	n.specsHeld = true

	pod := realkubelet.NewPod("pod", map[string]int64{gpu: 2})
	pod.Annotations = map[string]string{"example.com/message": "first"}
	api.set(pod)
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
	api.set(pod)
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
