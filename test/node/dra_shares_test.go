package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Verifies that claims share a device by amounts: each container gets its own, the scheduler gives out no
// more than there is, the end of one share leaves the others, and the restart of the agent, too.
func TestShares(t *testing.T) {
	n := begin(t)
	n.installExample("dra-shares", func(values, []map[string]any) {})
	n.wantPublished(2)
	n.apply("shares")
	readme, err := os.ReadFile(filepath.Join(examples(), "shares", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"shares-large", "shares-small"} {
		n.wantReady(pod)
		printed := "    " + strings.Join(n.log(pods, pod, "main"), "\n    ")
		if !strings.Contains(string(readme), "`kubectl logs "+pod+"`") || !strings.Contains(string(readme), "\n\n"+printed+"\n\n") {
			t.Errorf("the README does not have what %s printed:\n%s", pod, printed)
		}
	}
	n.share("rest", "32Gi", "mock-0")
	n.share("next", "32Gi", "mock-1") // mock-0 has 40, 8 and 32 GiB of 80 given out
	n.deletePod(n.agentPod())
	n.delete("rest")
	n.share("again", "30Gi", "mock-0")
	n.delete("again")
	n.delete("next")
	n.wantReady("shares-large")
	n.delete("shares-large")
	n.delete("shares-small")
	n.wantNoRecord()
}

// share starts a pod with a claim for that much memory, and checks which device it shares.
func (n *node) share(name, memory, device string) {
	n.Helper()
	claim := newClaim(name, 1, "")
	claim.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{
		Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)},
	}
	n.claim(claim)
	n.create(claimingPod(name, name))
	n.wantReady(name)
	if got := n.allocated(name); !slices.Equal(got, []string{device}) {
		n.Errorf("claim %s has %v, want %s", name, got, device)
	}
}
