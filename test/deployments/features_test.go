package deployments

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// featuresDir is where Node Feature Discovery reads feature files.
const featuresDir = "/etc/kubernetes/node-feature-discovery/features.d"

// TestNodeFeatures verifies for each way to publish the node's features that the
// agent has the flag, the directory and the rights for it, and none of them
// otherwise.
func TestNodeFeatures(t *testing.T) {
	for publish, want := range map[string]struct {
		flag, directory string
		verbs           []string
		policies        int
	}{
		"none":   {"", "", []string{"watch"}, 0},
		"nfd":    {"--features-dir=" + featuresDir, featuresDir, []string{"watch"}, 0},
		"labels": {"--node-labels", "", []string{"watch", "get", "patch"}, 1},
	} {
		t.Run(publish, func(t *testing.T) {
			objects := render(t, with("--set", "nodeFeatures.publish="+publish)...)
			flag := ""
			for _, arg := range agentContainer(t, objects).Args {
				if strings.HasPrefix(arg, "--features-dir") || strings.HasPrefix(arg, "--node-labels") {
					flag += arg
				}
			}
			if flag != want.flag {
				t.Errorf("flag %q, want %q", flag, want.flag)
			}
			if got := hostFeatures(objects, t); got != want.directory {
				t.Errorf("directory of the node %q, want %q", got, want.directory)
			}
			rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: want.verbs}}
			if diff := cmp.Diff(rules, only[*rbacv1.ClusterRole](t, objects).Rules); diff != "" {
				t.Errorf("cluster role (-want +got):\n%s", diff)
			}
			policies := slices.DeleteFunc(slices.Clone(objects), func(o runtime.Object) bool {
				_, ok := o.(*admissionv1.ValidatingAdmissionPolicy)
				return !ok
			})
			if len(policies) != want.policies {
				t.Errorf("%d admission policies, want %d", len(policies), want.policies)
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

// TestOwnNodePolicy verifies that the policy is about the agents' own account and
// denies, and that it is left out where it cannot work or is not wanted.
func TestOwnNodePolicy(t *testing.T) {
	labels := with("--set", "nodeFeatures.publish=labels")
	objects := render(t, append(labels, "--set", "serviceAccount.name=mine")...)
	policy := only[*admissionv1.ValidatingAdmissionPolicy](t, objects)
	account := "'system:serviceaccount:" + namespace + ":" + only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec.ServiceAccountName + "'"
	if conditions := policy.Spec.MatchConditions; len(conditions) != 1 || conditions[0].Expression != "request.userInfo.username == "+account {
		t.Errorf("it is for %v, want %s", conditions, account)
	}
	binding := only[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects)
	if binding.Spec.PolicyName != policy.Name || !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
		t.Errorf("bound as %+v", binding.Spec)
	}
	if _, err := template(t, append(labels, "--kube-version", "1.29.0")...); err == nil || !strings.Contains(err.Error(), "ownNodePolicy needs Kubernetes 1.30") {
		t.Errorf("Kubernetes 1.29: %v", err)
	}
	out, err := template(t, append(labels, "--kube-version", "1.29.0", "--set", "nodeFeatures.ownNodePolicy=false")...)
	if err != nil || strings.Contains(out, "ValidatingAdmissionPolicy") || !strings.Contains(out, "no admission policy limits it") {
		t.Errorf("without the policy: %v\n%s", err, out)
	}
}
