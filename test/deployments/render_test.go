package deployments

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	chart     = "deployments/helm/accelmux"
	namespace = "accelmux-system"
)

// valueSets are the ways to install the chart that its tests go through: every
// example, and what the project itself installs.
func valueSets(t *testing.T) map[string][]string {
	t.Helper()
	examples, err := filepath.Glob(filepath.Join(root, chart, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	sets := map[string][]string{
		"manifests":       {"-f", chart + "/examples/mock.yaml", "-f", "deployments/manifests/values.yaml"},
		"kind":            {"-f", "deployments/kind/values.yaml"},
		"service monitor": with("--set", "serviceMonitor.enabled=true"),
		"webhook":         with("--set", "webhook.enabled=true"),
		"claims elsewhere": {
			"-f", chart + "/examples/dra.yaml", "--set", "image.repository=registry.example.com/accelmux,hostPaths.kubelet=/var/lib/k0s/kubelet",
		},
		"NVIDIA client": {"-f", chart + "/examples/nvidia.yaml", "--set", "image.repository=registry.example.com/accelmux,nvidiaClient.enabled=true"},
		"everything": {
			"-f", chart + "/examples/third-party.yaml", "-f", write(t, "values.yaml", everything),
		},
	}
	for _, path := range examples {
		sets["example "+filepath.Base(path)] = []string{"-f", path, "--set", "image.repository=registry.example.com/accelmux"}
	}
	return sets
}

// everything sets what no example sets.
const everything = `
image:
  repository: registry.example.com:5000/accelmux
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  pullPolicy: Always
imagePullSecrets: [{name: registry}]
backendContainers: {mock: {env: [{name: A, value: b}], resources: {limits: {memory: 64Mi}}, securityContext: {runAsUser: 61190, capabilities: {add: [SYS_ADMIN]}}}}
hostPID: true
backendUsers: true
seLinuxOptions: {type: spc_t}
hostPaths: {kubelet: /var/lib/k0s/kubelet, devicePlugins: /var/snap/acme/kubelet/device-plugins, cdi: /etc/cdi, features: /opt/nfd/features.d}
nodeFeatures: {publish: nfd}
extraVolumes: [{name: driver, hostPath: {path: /usr/lib/acme}}]
extraVolumeMounts: [{name: driver, mountPath: /usr/lib/acme, readOnly: true}]
serviceAccount: {create: false, name: mine}
rbac: {create: false}
nodeSelector: {node.example/kind: big}
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: other}}}]}}
tolerations: [{key: acme.example/npu, operator: Exists, effect: NoSchedule}]
priorityClassName: mine
runtimeClassName: nvidia
updateStrategy: {rollingUpdate: {maxSurge: 3}}
podSecurityContext: {supplementalGroups: [44]}
extraEnv: [{name: A, value: b}]
extraArgs: [--log-level=debug]
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboards: {enabled: true}
networkPolicy: {enabled: true, metricsFrom: [{podSelector: {}}]}
nvidiaMPS: {enabled: true, driverRoot: /run/nvidia/driver, dir: /run/mps, resources: {}}
podAnnotations: {example.com/note: "yes"}
podLabels: {example.com/team: lab}
fullnameOverride: devices
metrics: {enabled: true, port: 12345}
podMonitor: {enabled: true, labels: {release: prometheus}, interval: 30s, scrapeTimeout: 5s}
configCheck: {resources: {limits: {memory: 128Mi}}, nodeSelector: {node.example/kind: small}, tolerations: [{key: acme.example/control-plane, operator: Exists}], affinity: {nodeAffinity: {}}}
webhook:
  {enabled: true, failurePolicy: Fail, replicas: 2, certManager: {enabled: true}, resources: {}, nodeSelector: {node.example/kind: small},
   tolerations: [{key: acme.example/control-plane, operator: Exists}], affinity: {nodeAffinity: {}}}
`

// render is what helm makes of the chart.
func render(t *testing.T, args ...string) []runtime.Object {
	t.Helper()
	out, err := template(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, []byte(out))
}

func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return command(t.Context(), helm, append([]string{"template", "accelmux", chart, "--namespace", namespace}, args...)...)
}

// decode reads YAML documents by the types of the Kubernetes API; a field that
// they do not have, or have twice, ends the test.
func decode(t *testing.T, data []byte) []runtime.Object {
	t.Helper()
	objects, err := decodeStrict(data)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func decodeStrict(data []byte) ([]runtime.Object, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme),
		admissionv1.AddToScheme(scheme), resourcev1.AddToScheme(scheme), monitoringv1.AddToScheme(scheme), certmanagerv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var objects []runtime.Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(withoutComments(string(document))) == "" {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

func withoutComments(document string) string {
	var lines []string
	for line := range strings.Lines(document) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// only returns the one object of type T, beside the DaemonSets of MPS's control daemon and of the pods for which NVIDIA's
// tools wait, the dashboards and the ConfigMap of the Job that checks the configuration.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		m, ok := object.(metav1.Object)
		if ok && (strings.HasSuffix(m.GetName(), "-nvidia-mps") || strings.HasSuffix(m.GetName(), "-nvidia-client") || strings.Contains(m.GetName(), "-dashboard-")) {
			continue
		}
		if _, isConfigMap := object.(*corev1.ConfigMap); isConfigMap && strings.HasSuffix(m.GetName(), "-config-check") {
			continue
		}
		if match, ok := object.(T); ok {
			found = append(found, match)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}
