package realkubelet

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Ability is something that kubelet does from a release on, by default.
type Ability struct {
	// Name says what, KEP where it was decided.
	Name, KEP string
	// Minor is of the first release that does it without a feature gate set.
	Minor int
}

// The abilities that tests ask for.
var (
	// Claims is dynamic resource allocation (resource.k8s.io/v1).
	Claims = Ability{"resource.k8s.io/v1", "KEP-4381", 34}
	// Taints are those of devices in ResourceSlices.
	Taints = Ability{"device taints", "KEP-5055", 36}
	// ExtendedResources are those that claims serve.
	ExtendedResources = Ability{"extended resources by claims", "KEP-5004", 36}
	// CDIDevices are the CDI names in the answer to Allocate; 1.28 takes them only
	// with the feature gate DevicePluginCDIDevices.
	CDIDevices = Ability{"CDI names in an answer to Allocate", "KEP-4009", 29}
	// HealthStatus is devices' health in the status of pods; from 1.31 with the
	// feature gate ResourceHealthStatus.
	HealthStatus = Ability{"devices' health in the status of pods", "KEP-4680", 36}
	// PodResourcesGet is the method Get of the pod-resources API. Without it the agent
	// has to list, which a kubelet that has just started must be spared for 10 s.
	PodResourcesGet = Ability{"Get in the pod-resources API", "KEP-3695", 34}
	// StreamsApart is that the end of a plugin's connection does not end the newer one
	// of the same resource.
	StreamsApart = Ability{"connection of its own for a resource's newer plugin", "k8s.io/kubernetes 1.37", 37}
	// PreparedOnce is that a claim that is prepared again has its devices once.
	PreparedOnce = Ability{"one entry for a device of a claim that is prepared again", "k8s.io/kubernetes 1.37", 37}
)

// Can reports whether a release such as v1.37.1 does it by default.
func (a Ability) Can(release string) bool { return minor(release) >= a.Minor }

// Need skips the test, by name, if the release does not do it.
func (a Ability) Need(t testing.TB, release string) {
	t.Helper()
	if !a.Can(release) {
		t.Skip(a.Missing(release)) //nolint:forbidigo // what a release does not do is no matter of the machine
	}
}

// Missing describes what a release does not do.
func (a Ability) Missing(release string) string {
	return fmt.Sprintf("kubelet %s has no %s by default, 1.%d is the first (%s)", release, a.Name, a.Minor, a.KEP)
}

// minor is 37 of v1.37.1, and 0 of what is no release.
func minor(release string) int {
	parts := strings.Split(release, ".")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}
