package deployments

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

// nodeConfig is the part of a node configuration that these tests look at.
type nodeConfig struct {
	Profiles []struct {
		Name      string
		Resources []struct{ Name string }
	}
}

// TestKindCluster verifies that kind knows every field of its configuration, and
// that each worker has a profile of its own that install.sh installs.
func TestKindCluster(t *testing.T) {
	var cluster v1alpha4.Cluster
	if err := yaml.UnmarshalStrict(read(t, "deployments/kind/cluster.yaml"), &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || cluster.Kind != "Cluster" {
		t.Errorf("header: %+v", cluster.TypeMeta)
	}
	var workers []string
	for _, node := range cluster.Nodes {
		switch node.Role {
		case v1alpha4.ControlPlaneRole:
		case v1alpha4.WorkerRole:
			workers = append(workers, node.Labels["accelmux.io/profile"])
		default:
			t.Errorf("role %q", node.Role)
		}
	}
	var profiles []string
	for _, profile := range kindConfig(t).Profiles {
		profiles = append(profiles, profile.Name)
	}
	if diff := cmp.Diff(profiles, workers); diff != "" {
		t.Errorf("workers (-profiles +labels):\n%s", diff)
	}
	script := string(read(t, "deployments/kind/install.sh"))
	loops := regexp.MustCompile(`for profile in (.*); do`).FindAllStringSubmatch(script, -1)
	if len(loops) == 0 {
		t.Error("install.sh installs no profile")
	}
	for _, loop := range loops {
		if diff := cmp.Diff(profiles, strings.Fields(loop[1])); diff != "" {
			t.Errorf("install.sh (-profiles +installed):\n%s", diff)
		}
	}
	for _, want := range []string{"cluster=" + cluster.Name + "\n", "image=localhost/accelmux:dev\n"} {
		if !strings.Contains(script, want) {
			t.Errorf("install.sh has no %q", want)
		}
	}
	must(t, "bash", "-n", "deployments/kind/install.sh")
}

// TestKindPods verifies that each profile has a sample pod that is exact and can
// be scheduled.
func TestKindPods(t *testing.T) {
	var wanted []string
	for _, object := range decode(t, read(t, "deployments/kind/pods.yaml")) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			t.Fatalf("%T, want a pod", object)
		}
		for name := range pod.Spec.Containers[0].Resources.Limits {
			wanted = append(wanted, string(name))
		}
	}
	for _, profile := range kindConfig(t).Profiles {
		if !slices.ContainsFunc(profile.Resources, func(r struct{ Name string }) bool { return slices.Contains(wanted, r.Name) }) {
			t.Errorf("no pod asks for a device of profile %s", profile.Name)
		}
	}
	if len(wanted) != len(kindConfig(t).Profiles) {
		t.Errorf("pods ask for %v, which is not one resource for each profile", wanted)
	}
}

func kindConfig(t *testing.T) nodeConfig {
	t.Helper()
	text := only[*corev1.ConfigMap](t, render(t, valueSets(t)["kind"]...)).Data["node.yaml"]
	var config nodeConfig
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	return config
}
