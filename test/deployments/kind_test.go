package deployments

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

// nodeConfig is the part of a node configuration that these tests look at; that
// the agent takes all of it, TestNodeConfigurationIsValid verifies.
type nodeConfig struct {
	Profiles []struct {
		Name         string
		NodeSelector struct{ MatchLabels map[string]string }
		Resources    []struct{ Name string }
	}
}

// TestKindCluster verifies that kind knows every field of its configuration, and
// that the labels of each worker choose a profile of its own.
func TestKindCluster(t *testing.T) {
	var cluster v1alpha4.Cluster
	if err := yaml.UnmarshalStrict(read(t, "deployments/kind/cluster.yaml"), &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || cluster.Kind != "Cluster" {
		t.Errorf("header: %+v", cluster.TypeMeta)
	}
	var workers, profiles []map[string]string
	for _, node := range cluster.Nodes {
		switch node.Role {
		case v1alpha4.ControlPlaneRole:
		case v1alpha4.WorkerRole:
			workers = append(workers, node.Labels)
		default:
			t.Errorf("role %q", node.Role)
		}
	}
	for _, profile := range kindConfig(t).Profiles {
		profiles = append(profiles, profile.NodeSelector.MatchLabels)
	}
	if diff := cmp.Diff(profiles, workers); diff != "" {
		t.Errorf("labels (-profiles +workers):\n%s", diff)
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
