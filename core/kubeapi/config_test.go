package kubeapi_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/kubeapi"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// Verifies where the API server is looked for, and that what is wrong with that is
// told with the file's name, without contacting anybody.
func TestConfig(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	if _, err := kubeapi.Config(""); !errors.Is(err, kubeapi.ErrNone) {
		t.Errorf("outside of a pod: %v, want ErrNone", err)
	}
	config, err := kubeapi.Config(write(kubeconfig))
	if err != nil || config.Host != "https://127.0.0.1:6443" || config.BearerToken != "secret" {
		t.Errorf("kubeconfig: %v, %v", config, err)
	}
	if client, err := kubeapi.Connect(config); err != nil {
		t.Error(err)
	} else {
		client.Close()
	}
	for name, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "none"), "broken": write("clusters: 5\n")} {
		if _, err := kubeapi.Config(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one that names the file", name, err)
		}
	}
	if _, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token"); err != nil {
		t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
		t.Setenv("KUBERNETES_SERVICE_PORT", "443")
		if _, err := kubeapi.Config(""); err == nil || errors.Is(err, kubeapi.ErrNone) || !strings.Contains(err.Error(), "automountServiceAccountToken") {
			t.Errorf("a pod without a token: %v", err)
		}
	}
}
