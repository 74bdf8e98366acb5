package node

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parameters are opaque parameters for the driver of the mock.
const parameters = `{opaque: {driver: mock.accelmux.io, parameters: {apiVersion: accelmux.io/v1alpha1, kind: DeviceParameters, parameters: %s}}}`

// TestWebhookRefusesParameters verifies that the webhook of the chart refuses wrong parameters at
// kubectl apply, in each kind and version of the API that has them, with the place of the mistake, and
// accepts right ones. With failurePolicy Fail nothing passes without it.
func TestWebhookRefusesParameters(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs, values{"webhook": values{"enabled": true, "failurePolicy": "Fail"}})
	n.forward("accelmux-webhook")
	for kind, object := range map[string]struct{ spec, at string }{
		"ResourceClaim":         {"{devices: {requests: [REQUEST], config: [%s]}}", "spec.devices.config[0]"},
		"ResourceClaimTemplate": {"{spec: {devices: {requests: [REQUEST], config: [%s]}}}", "spec.spec.devices.config[0]"},
		"DeviceClass":           {"{config: [%s]}", "spec.config[0]"},
	} {
		for version, request := range map[string]string{"v1": "{name: a, exactly: {deviceClassName: x}}", "v1beta1": "{name: a, deviceClassName: x}", "v1beta2": "{name: a, exactly: {deviceClassName: x}}"} {
			if !n.serves(version) {
				continue
			}
			t.Run(kind+" "+version, func(t *testing.T) {
				apply := func(given string) error {
					spec := strings.ReplaceAll(fmt.Sprintf(object.spec, fmt.Sprintf(parameters, given)), "REQUEST", request)
					text := fmt.Sprintf("{apiVersion: resource.k8s.io/%s, kind: %s, metadata: {name: webhook}, spec: %s}", version, kind, spec)
					path := filepath.Join(t.TempDir(), "object.yaml")
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					_, err := run(n.soon(), "kubectl", "create", "--dry-run=server", "--filename="+path)
					return err
				}
				if err := apply("{message: hello}"); err != nil {
					t.Errorf("right parameters: %v", err)
				}
				for given, want := range map[string]string{
					"{mesage: hello}": object.at + ".opaque.parameters: the backend does not know the parameter mesage",
					"{message: 7}":    object.at + ".opaque.parameters.parameters.message: got number, want string",
				} {
					if err := apply(given); err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %q", given, err, want)
					}
				}
			})
		}
	}
}

// serves reports whether the API server has the version of resource.k8s.io.
func (n *node) serves(version string) bool {
	n.Helper()
	return strings.Contains("\n"+n.must("kubectl", "api-versions"), "\nresource.k8s.io/"+version+"\n")
}

// forward is kube-proxy for the one pod of a service of the release, as the node has none: it forwards
// connections to the service's address.
func (n *node) forward(name string) {
	n.Helper()
	service, err := client.CoreV1().Services(namespace).Get(n.soon(), name, metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})
	pods, err := client.CoreV1().Pods(namespace).List(n.soon(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(pods.Items) != 1 {
		n.Fatalf("the pods of %s: %v, %v", name, pods, err)
	}
	pod := pods.Items[0]
	address := service.Spec.ClusterIP + "/32"
	n.must("ip", "address", "add", address, "dev", "node0")
	n.Cleanup(func() { n.must("ip", "address", "del", address, "dev", "node0") })
	listener, err := net.Listen("tcp", net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(service.Spec.Ports[0].Port)))
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = listener.Close() })
	target := net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(portOf(pod, service.Spec.Ports[0].TargetPort.StrVal)))
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go connect(from, target)
		}
	}()
}

// portOf is the port of the pod with the name.
func portOf(pod v1.Pod, name string) int32 {
	for _, port := range pod.Spec.Containers[0].Ports {
		if port.Name == name {
			return port.ContainerPort
		}
	}
	return 0
}

// connect copies between a connection and one to target, until either ends.
func connect(from net.Conn, target string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}
