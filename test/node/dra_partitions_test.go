package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// Verifies that partitions are made for a claim and gone after it; that one which cannot be made fails the
// start with the driver's words and leaves nothing; that a partition made by hand is given out and
// survives its claim, while the scheduler gives out nothing that overlaps with it; and that the restart of
// the agent keeps those of a running pod.
func TestPartitionsAreMadeForClaims(t *testing.T) {
	n := begin(t)
	n.installExample("dra-partitions", func(_ values, profiles []map[string]any) {
		settings := profiles[0]["backends"].([]any)[0].(map[string]any)["settings"].(map[string]any)
		settings["scenarioFile"] = filepath.Join(playDir, "scenario.yaml")
	})
	n.wantPublished(26)
	n.apply("partitions")
	n.wantLog("partitions", "large", "mock-0-3g-3")
	n.wantLog("partitions", "small", "mock-0-1g-2", "mock-0-1g-6")
	n.wantMade("mock-0-1g-6", "mock-0-1g-2", "mock-0-3g-3")

	n.play(`{devices: {mock-1-7g-0: {prepare: {error: "the firmware refused"}}}}`)
	n.claim(partition("seven", "7g"))
	n.create(claimingPod("seven", "seven"))
	n.wantPodEvent("seven", "FailedPrepareDynamicResources", "backend mock could not prepare [mock-1-7g-0] for mock.accelmux.io: make mock-1-7g-0: the firmware refused")
	n.wantMade("mock-0-1g-6", "mock-0-1g-2", "mock-0-3g-3")
	n.play(`{}`)
	n.wantReady("seven")
	n.delete("seven")

	n.play(`{devices: {mock-1-2g-4: {exists: true}}}`)
	n.wantMade("mock-0-1g-6", "mock-0-1g-2", "mock-0-3g-3", "mock-1-2g-4")
	n.eventually("it is published as one that exists", func() bool {
		published, err := publishedDevices(context.Background())
		device, ok := published["mock-1-2g-4"]
		return err == nil && ok && len(device.ConsumesCounters) == 0
	})
	n.claim(partition("again", "7g"))
	n.create(claimingPod("again", "again"))
	n.wantPodEvent("again", "FailedScheduling", "cannot allocate all claims")
	n.claim(partition("two", "2g"))
	n.create(claimingPod("two", "two"))
	n.wantReady("two")
	if got := n.allocated("two"); !slices.Equal(got, []string{"mock-1-2g-4"}) {
		t.Errorf("the claim has %v, want the partition that exists", got)
	}
	n.deletePod(n.agentPod())
	n.wantMade("mock-0-1g-6", "mock-0-1g-2", "mock-0-3g-3", "mock-1-2g-4")
	n.delete("two")
	n.delete("partitions")
	n.wantReady("again")
	n.wantMade("mock-0-7g-0", "mock-1-2g-4")
	n.delete("again")
	n.wantMade("mock-1-2g-4")
	n.play(`{}`)
	n.wantMade()
	n.wantNoRecord()
}

// partition is a claim for a partition.
func partition(name, profile string) *resourcev1.ResourceClaim {
	return newClaim(name, 1, fmt.Sprintf(`device.attributes["mock.accelmux.io"].profile == %q`, profile))
}

// wantMade waits until these partitions exist, and no others.
func (n *node) wantMade(want ...string) {
	n.Helper()
	var got []string
	slices.Sort(want)
	n.eventually("the partitions "+strings.Join(want, " ")+" exist", func() bool {
		all, err := devices(context.Background())
		got = nil
		for _, d := range all {
			if !d.Potential {
				got = append(got, d.ID)
			}
		}
		slices.Sort(got)
		return err == nil && slices.Equal(want, got)
	})
}
