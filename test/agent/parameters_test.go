package agent

import (
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
)

// asking is a resource whose containers may ask for a message.
const asking = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, hooks: [prepare], scenarioFile: DIR/scenario.yaml}
        recovery: {delay: 0s}
    resources:
      - name: example.com/gpu
        parameters: {message: {value: nothing, annotation: example.com/message, env: MESSAGE}}
`

// startAsking is a node with that resource, and the API server that it asks.
func startAsking(t *testing.T, config string, units int, edit ...func(*agent.Options)) (*node, *clustertest.Server) {
	t.Helper()
	n, server, _ := startCluster(t, config, units, map[string]string{}, append(edit, func(o *agent.Options) { o.Profile = "default" })...)
	return n, server
}

// aPod is a pod with a container main, and annotations in pairs.
func aPod(name string, annotations ...string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}}}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	return pod
}

// withEnv gives the pod's container a variable.
func withEnv(pod corev1.Pod, name, value string) corev1.Pod {
	c := &pod.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	return pod
}

// run admits a pod and starts its container, and returns what that gets.
func (n *node) run(pod string) (*kubelettest.Settings, error) {
	n.Helper()
	n.allocate(pod, gpu, 1)
	return n.kubelet.StartContainer(n.Context(), pod, "main")
}

// variable is the value of a variable that a container gets by CDI; "" if it gets none.
func (n *node) variable(settings *kubelettest.Settings, name string) string {
	n.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.path("cdi")), cdi.WithAutoRefresh(false))
	if err != nil {
		n.Fatal(err)
	}
	spec := &oci.Spec{}
	if _, err := cache.InjectDevices(spec, settings.CDIDevices...); err != nil {
		n.Fatal(err)
	}
	for _, variable := range spec.Process.Env {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// message is the message that the mock gives to a container; "" for none.
func (n *node) message(settings *kubelettest.Settings) string {
	n.Helper()
	return n.variable(settings, "ACCELMUX_MOCK_MESSAGE")
}

// Verifies where the value of a parameter comes from, and which counts of several,
// until it is in the container.
func TestParameters(t *testing.T) {
	t.Parallel()
	n, server := startAsking(t, asking, 4)
	const key = "example.com/message"
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"the configuration":              {aPod("p"), "nothing"},
		"an annotation":                  {aPod("p", key, "all"), "all"},
		"an annotation of the container": {aPod("p", key, "all", key+".main", "mine", key+".other", "not mine"), "mine"},
		"a variable":                     {withEnv(withEnv(aPod("p", key+".main", "mine"), "OTHER", "x"), "MESSAGE", "env"), "env"},
		"a variable twice":               {withEnv(withEnv(aPod("p"), "MESSAGE", "first"), "MESSAGE", "last"), "last"},
		"an empty annotation":            {aPod("p", key, ""), ""},
		"an empty variable":              {withEnv(aPod("p", key, "all"), "MESSAGE", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			server.SetPod(c.pod)
			settings, err := n.run("default/p")
			if err != nil {
				t.Fatal(err)
			}
			if got := n.message(settings); got != c.want {
				t.Errorf("the container is told %q, want %q", got, c.want)
			}
			n.kubelet.Free("default/p")
		})
	}
}

// Verifies that a change of the parameters counts for the next start, and that what
// needs no pod needs no API server.
func TestParametersChange(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, strings.Replace(asking, ", annotation: example.com/message, env: MESSAGE", "", 1))
	settings, err := n.run("default/p")
	if err != nil || n.message(settings) != "nothing" {
		t.Fatalf("%v, the container is told %q", err, n.message(settings))
	}
	n.configure(strings.Replace(asking, "{value: nothing, annotation: example.com/message, env: MESSAGE}", "{value: something}", 1))
	n.eventually("the new value is told", func() bool {
		settings, err := n.kubelet.StartContainer(t.Context(), "default/p", "main")
		return err == nil && n.message(settings) == "something"
	})
	n.configure(asking)
	n.eventually("the start fails without an API server", func() bool {
		_, err := n.kubelet.StartContainer(t.Context(), "default/p", "main")
		return err != nil && strings.Contains(err.Error(), "no API server is configured")
	})
}

// Verifies the sentence for each reason why it is not known what a container asks
// for, and that the start goes well once that is mended.
func TestParametersUnknown(t *testing.T) {
	t.Parallel()
	n, server := startAsking(t, asking, 4)
	good := aPod("p", "example.com/message", "hello")
	elsewhere := aPod("p")
	elsewhere.Spec.NodeName = "node-2"
	renamed := aPod("p")
	renamed.Spec.Containers[0].Name = "other"
	referring := aPod("p")
	referring.Spec.Containers[0].Env = []corev1.EnvVar{{
		Name: "MESSAGE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	}}
	for _, c := range []struct {
		name    string
		prepare func()
		want    string
	}{
		{"no such pod", func() {}, "the API server has no pod default/p, for which kubelet lists the devices"},
		{"no right", func() { server.SetPod(good); server.ForbidVerbs("get pod") }, "needs the verb get on pods (a ClusterRole); check with `kubectl auth can-i get pods"},
		{"no server", func() { server.ForbidVerbs(); server.Away(true) }, "read pod default/p: "},
		{"on another node", func() { server.Away(false); server.SetPod(elsewhere) }, `for the API server pod default/p is on node "node-2", not on this one`},
		{"another container", func() { server.SetPod(renamed) }, "no container of pod default/p has"},
		{"a reference", func() { server.SetPod(referring) }, "parameter message, from the variable MESSAGE of container main: it has valueFrom"},
		{"another variable", func() { server.SetPod(withEnv(aPod("p"), "MESSAGE", "$(HOSTNAME)")) }, `"$(HOSTNAME)" refers to another variable`},
		{"too long", func() { server.SetPod(aPod("p", "example.com/message", strings.Repeat("x", 254))) }, "from the annotation example.com/message: the value is too long: 254 bytes, at most 253"},
		{"control characters", func() { server.SetPod(aPod("p", "example.com/message", "a\x1b[31m")) }, "without control characters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.prepare()
			_, err := n.run("default/p")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the parameters that the container gives for example.com/gpu are not known") {
				t.Errorf("%v\nwant %q", err, c.want)
			}
		})
	}
	server.SetPod(good)
	if _, err := n.run("default/p"); err != nil {
		t.Error(err)
	}
}

// Verifies that an init container is told what its pod asks for while it has devices
// that another container of the pod has later, unless the two ask for different things.
func TestParametersOfInitContainers(t *testing.T) {
	t.Parallel()
	n, server := startAsking(t, asking, 4)
	pod := aPod("p", "example.com/message", "both")
	limits := corev1.ResourceList{gpu: resource.MustParse("1")}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Limits: limits}}}
	server.SetPod(pod)
	settings, err := n.run("default/p")
	if err != nil || n.message(settings) != "both" {
		t.Fatalf("%v, the container is told %q", err, n.message(settings))
	}
	pod.Annotations["example.com/message.init"] = "mine"
	server.SetPod(pod)
	if _, err := n.kubelet.StartContainer(t.Context(), "default/p", "main"); err == nil ||
		!strings.Contains(err.Error(), "the containers main and init may both have mock-") || !strings.Contains(err.Error(), ", and give different values") {
		t.Errorf("different values: %v", err)
	}
}

// Verifies that status tells of a parameter that the backend does not know, or is not
// told of, before a container needs it.
func TestParametersThatNobodyKnows(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, strings.Replace(asking, "{message:", "{mesage:", 1))
	n.wantProblem("the backend does not know the parameter mesage; did you mean \"message\"?")
	n.configure(strings.Replace(asking, "hooks: [prepare], ", "", 1))
	n.wantProblem("4 of its devices ask for no preparation")
	n.configure(strings.Replace(asking, "{value: nothing, annotation: example.com/message, env: MESSAGE}", "{value: a}, mesage: {value: b}", 1))
	n.eventually("the start fails", func() bool {
		_, err := n.run("default/p")
		return err != nil && strings.Contains(err.Error(), "the backend does not know the parameter mesage")
	})
}

// Verifies that names which no backend has are problems in status, with their place in the file, and that they are
// checked by what the backend declares for its new settings.
func TestNamesThatNobodyHas(t *testing.T) {
	t.Parallel()
	// With a scenario, the mock's devices may have any attribute.
	text := strings.Replace(oneBackend, ", scenarioFile: DIR/scenario.yaml}", "}\n        features: [model, modle]", 1)
	if text == oneBackend {
		t.Fatal("the settings were not found")
	}
	n := startNode(t, 4, text)
	n.wantProblem("backend mock: no device of backend mock has the attribute or capacity modle; did you mean \"model\"? ("+n.path("node.yaml")+":", ": profiles[0].backends[0].features[1])")
	n.configure(strings.Replace(text, "count: 4,", "count: 4, attributes: {modle: x},", 1))
	n.eventually("the problem is gone", func() bool { return !strings.Contains(n.problems(), "modle") })
}
