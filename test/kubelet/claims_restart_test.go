package kubelet

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestPrepareAgainGivesTheSameAnswer verifies that kubelet gets the same CDI names when it asks again
// after a restart of its own, which may have lost its state, and after restarts of the agent.
func TestPrepareAgainGivesTheSameAnswer(t *testing.T) {
	need(t, realkubelet.Claims)
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			n := startClaims(t, mock{Count: 4, Prepare: true})
			claim := n.claim("claim", class, 2)
			pod := n.schedule("pod", claim)
			names := n.prepare(pod)
			n.wantNames(names, "mock", claim)
			again := func(after string) {
				if got := n.prepare(pod); !slices.Equal(got, names) {
					t.Errorf("the claim had %v, and after %s %v", names, after, got)
				}
				n.wantNames(names, "mock", claim)
			}
			n.restart(false)
			again("a restart of kubelet")
			n.restart(true)
			again("a restart of kubelet without its state")
			if err := end(n.node); err != nil {
				t.Fatal(err)
			}
			n.startAgent()
			n.restart(true)
			again("a restart of the agent")
			n.wantPublished(driver, 4)
			ids := n.ids(claim)
			n.finish(pod)
			n.wantHeld(false, ids...)
		})
	}
}

// restart restarts kubelet; forget removes what it knew of claims, as if it had been killed before it
// wrote that down.
func (n *claimNode) restart(forget bool) {
	n.Helper()
	if err := n.kubelet.Stop(); err != nil {
		n.Fatal(err)
	}
	if forget {
		if err := os.Remove(filepath.Join(n.agent.KubeletDir(), "dra_manager_state")); err != nil {
			n.Fatal(err)
		}
	}
	n.startKubelet()
}

// TestSlicesAfterAKubeletRestart verifies that the slices, which kubelet deletes when it starts, are
// back at once, and not after the 30 s that the library for drivers takes alone.
func TestSlicesAfterAKubeletRestart(t *testing.T) {
	const limit = 25 * time.Second // it takes 1 s or 2 on a machine that has nothing else to do
	n := startClaims(t, mock{Count: 200})
	for range 3 {
		before := n.sliceVersions()
		n.restart(false)
		took := n.eventually("all devices are in new slices", func() bool {
			for uid := range n.sliceVersions() {
				if before[uid] != "" {
					return false
				}
			}
			return len(n.published(driver)) == 200
		})
		t.Logf("the slices are back after %v", took.Round(time.Millisecond))
		if took > limit {
			t.Errorf("the slices were back after %v; want less than %v", took, limit)
		}
	}
}

// sliceVersions are the resource versions of the slices, by UID.
func (n *claimNode) sliceVersions() map[types.UID]string {
	n.Helper()
	slices, err := n.cluster.Slices(n.soon())
	if err != nil {
		n.Fatal(err)
	}
	versions := map[types.UID]string{}
	for _, s := range slices {
		versions[s.UID] = s.ResourceVersion
	}
	return versions
}

// TestKubeletRestartsWhileTheAgentIsAway verifies that after both were away claims are unprepared and
// prepared as if nothing had happened.
func TestKubeletRestartsWhileTheAgentIsAway(t *testing.T) {
	n := startClaims(t, mock{Count: 2, Prepare: true})
	kept, ended := n.claim("kept", class, 1), n.claim("ended", class, 1)
	staying, ending := n.schedule("staying", kept), n.schedule("ending", ended)
	names := n.prepare(staying)
	n.prepare(ending)
	id := n.ids(ended)[0]
	if err := n.agent.Kill(); err != nil {
		t.Fatal(err)
	}
	n.restart(false)
	n.eventually("kubelet has deleted the slices", func() bool { return len(n.published(driver)) == 0 })
	if err := n.kubelet.UnprepareClaims(n.soon(), ending); err == nil {
		t.Error("a claim was unprepared without a driver")
	}
	if got := n.names(staying); !slices.Equal(got, names) {
		t.Errorf("while the agent is away the running pod has %v; want %v", got, names)
	}
	n.startAgent()
	n.wantPublished(driver, 2)
	n.finish(ending)
	n.wantHeld(false, id)
	next := n.claim("next", class, 1)
	n.wantNames(n.prepare(n.schedule("next", next)), "mock", next)
	n.wantNames(n.prepare(staying), "mock", kept)
}

// TestClaimsAfterAReboot verifies that after a boot, which leaves no CDI definition on disk, claims are
// prepared again for the containers that start again.
func TestClaimsAfterAReboot(t *testing.T) {
	n := newClaimNode(t)
	procfs := t.TempDir()
	boot := func(id string) {
		if err := os.WriteFile(filepath.Join(procfs, "sys/kernel/random/boot_id"), []byte(id+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(procfs, "sys/kernel/random"), 0o755); err != nil {
		t.Fatal(err)
	}
	boot("11111111-1111-4111-8111-111111111111")
	n.agent.Args = append(n.agent.Args, "--procfs", procfs)
	n.run(mock{Count: 2, Prepare: true})
	claim := n.claim("claim", class, 1)
	pod := n.schedule("pod", claim)
	names := n.prepare(pod)

	if err := n.agent.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.kubelet.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(n.agent.CDIDir()); err != nil {
		t.Fatal(err)
	}
	boot("22222222-2222-4222-8222-222222222222")
	n.startKubelet()
	n.startAgent()
	n.retried("prepare the claim again", func() error { return n.tryPrepare(pod) })
	if got := n.names(pod); !slices.Equal(got, names) {
		t.Errorf("the claim had %v, and after the boot has %v", names, got)
	}
	n.wantNames(names, "mock", claim)
	n.finish(pod)
}

// TestTakeOverWithClaims verifies that a newer agent takes over from an older one without a slice that
// is written again, and that the claims of the older one go on and end as its own.
func TestTakeOverWithClaims(t *testing.T) {
	n := startClaims(t, mock{Count: 4, Prepare: true})
	claim := n.claim("claim", class, 2)
	pod := n.schedule("pod", claim)
	names := n.prepare(pod)
	before := n.sliceVersions()
	for _, name := range []string{"2", "3"} {
		newer := n.startStandby(name)
		if _, err := n.agent.Stop(); err != nil {
			t.Fatal(err)
		}
		n.wantRole(newer, status.RoleActive)
		n.agent = newer
		if got := n.prepare(pod); !slices.Equal(got, names) {
			t.Errorf("the claim had %v, and after a takeover has %v", names, got)
		}
		n.wantServed()
		if got := n.sliceVersions(); !maps.Equal(got, before) {
			t.Errorf("the slices had the versions %v, and after a takeover have %v", before, got)
		}
	}
	ids := n.ids(claim)
	n.finish(pod)
	n.wantHeld(false, ids...)
}
