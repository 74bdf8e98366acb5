package deployments

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// featuresDir is where Node Feature Discovery reads feature files.
const featuresDir = "/etc/kubernetes/node-feature-discovery/features.d"

// TestNodeFeatures verifies for each way to publish the node's features that the
// agent has the flag and the directory for it, and neither otherwise; it needs no further
// right.
func TestNodeFeatures(t *testing.T) {
	for publish, want := range map[string]struct {
		flag, directory string
	}{
		"none": {"", ""},
		"nfd":  {"--features-dir=" + featuresDir, featuresDir},
	} {
		t.Run(publish, func(t *testing.T) {
			objects := render(t, with("--set", "nodeFeatures.publish="+publish)...)
			flag := ""
			for _, arg := range agentContainer(t, objects).Args {
				if strings.HasPrefix(arg, "--features-dir") {
					flag += arg
				}
			}
			if flag != want.flag {
				t.Errorf("flag %q, want %q", flag, want.flag)
			}
			if got := hostFeatures(objects, t); got != want.directory {
				t.Errorf("directory of the node %q, want %q", got, want.directory)
			}
			rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}
			if diff := cmp.Diff(rules, only[*rbacv1.ClusterRole](t, objects).Rules); diff != "" {
				t.Errorf("cluster role (-want +got):\n%s", diff)
			}
		})
	}
	objects := render(t, with("--set", "nodeFeatures.publish=nfd,hostPaths.features=/opt/nfd")...)
	if got := hostFeatures(objects, t); got != "/opt/nfd" {
		t.Errorf("directory of the node %q, want /opt/nfd", got)
	}
}

// hostFeatures is the directory of the node that is mounted for the feature file.
func hostFeatures(objects []runtime.Object, t *testing.T) string {
	t.Helper()
	for _, volume := range only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec.Volumes {
		if volume.Name == "features" {
			if *volume.HostPath.Type != corev1.HostPathDirectoryOrCreate {
				t.Errorf("the directory is of the type %s", *volume.HostPath.Type)
			}
			return volume.HostPath.Path
		}
	}
	return ""
}
