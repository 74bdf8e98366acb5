package deployments

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const manifest = "deployments/manifests/accelmux.yaml"

// helmsOwn are labels that mean that helm manages an object.
var helmsOwn = regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n`)

// TestManifestsAreCurrent verifies that deployments/manifests is what the chart
// makes now.
func TestManifestsAreCurrent(t *testing.T) {
	out, err := template(t, valueSets(t)["manifests"]...)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Made by `make manifests` from the chart in deployments/helm. Do not edit.\n" +
		string(read(t, "deployments/manifests/namespace.yaml")) +
		helmsOwn.ReplaceAllString(strings.ReplaceAll(out, "\n\n---", "\n---"), "")
	have := ""
	if !*update {
		have = string(read(t, manifest))
	}
	current(t, manifest, want, have)
}

// TestManifestsCanBeApplied verifies that they are exact, come in an order in
// which nothing waits for another, and need nothing of helm.
func TestManifestsCanBeApplied(t *testing.T) {
	data := read(t, manifest)
	objects := decode(t, data)
	first, ok := objects[0].(*corev1.Namespace)
	if !ok || first.Name != namespace {
		t.Errorf("the first object is %T, want the namespace %s", objects[0], namespace)
	}
	if last, ok := objects[len(objects)-1].(*appsv1.DaemonSet); !ok {
		t.Errorf("the last object is %T, want the DaemonSet", last)
	}
	if bytes.Contains(bytes.ToLower(data), []byte("managed-by: helm")) {
		t.Error("the objects claim to be helm's")
	}
}

func indent(t *testing.T, data []byte, prefix string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(data), prefix, "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
