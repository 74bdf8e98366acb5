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
	missing := filepath.Join(t.TempDir(), "none")
	for path, want := range map[string]string{
		missing:                                "stat " + missing + ": no such file or directory",
		write("clusters: 5\n"):                 "the field clusters has the wrong type: number",
		write("users: [{name: {}}]\n"):         "the field users.name has the wrong type: object",
		write("kind: NodeConfig\nprofiles: 1"): "it is a NodeConfig, not a kubeconfig, which has kind: Config",
		write("a: [\n"):                        "line 1: did not find expected node content",
		write("\n"):                            "it names no cluster and no context",
	} {
		_, err := kubeapi.Config(path)
		if err == nil || err.Error() != "read the kubeconfig "+path+": "+want {
			t.Errorf("%v\nwant %s", err, want)
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
