package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parameters are opaque parameters for the driver of the mock.
const parameters = `{opaque: {driver: mock.accelmux.io, parameters: {apiVersion: accelmux.io/v1alpha1, kind: DeviceParameters, parameters: %s}}}`

// TestWebhookRefusesParameters verifies that the webhook of the chart refuses wrong parameters when they
// are created, in each kind of object that has them and each version of the API, with the place of the
// mistake, and accepts right ones. With failurePolicy Fail nothing passes without it.
func TestWebhookRefusesParameters(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs, values{"webhook": values{"enabled": true, "failurePolicy": "Fail"}})
	const devices = "{devices: {requests: [%s], config: [%s]}}"
	for kind, object := range map[string]struct{ spec, at string }{
		"ResourceClaim":         {devices, "spec.devices.config[0]"},
		"ResourceClaimTemplate": {"{spec: " + devices + "}", "spec.spec.devices.config[0]"},
		"DeviceClass":           {"{config: [%[2]s]}", "spec.config[0]"},
	} {
		for _, version := range []string{"v1", "v1beta1", "v1beta2"} {
			t.Run(kind+" "+version, func(t *testing.T) {
				request := "{name: a, exactly: {deviceClassName: x}}"
				if version == "v1beta1" {
					request = "{name: a, deviceClassName: x}"
				}
				create := func(given string) error {
					spec := fmt.Sprintf(object.spec, request, fmt.Sprintf(parameters, given))
					text := fmt.Sprintf("{apiVersion: resource.k8s.io/%s, kind: %s, metadata: {name: webhook}, spec: %s}", version, kind, spec)
					path := filepath.Join(t.TempDir(), "object.yaml")
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					_, err := run(n.soon(), "kubectl", "create", "--dry-run=server", "--filename="+path)
					return err
				}
				// The API server learns the pod's address a moment after the pod is ready.
				n.eventually("right parameters are accepted", func() bool { return create("{message: hello}") == nil })
				for given, want := range map[string]string{
					"{mesage: hello}": object.at + ".opaque.parameters: the backend does not know the parameter mesage",
					"{message: 7}":    object.at + ".opaque.parameters.parameters.message: must be a text, is 7",
				} {
					if err := create(given); err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %q", given, err, want)
					}
				}
			})
		}
	}
}
