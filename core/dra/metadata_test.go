package dra

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/dra/claim"
)

// Verifies that the files with attributes of a claim go with it when it ends without kubelet, and
// those of other claims stay, also of a later one of its name.
func TestMetadataOfAnEndedClaim(t *testing.T) {
	r := newRig(t)
	r.stop(t)
	r.metadata = true
	r.start(t)
	r.publish(t, device("GPU-0"), device("GPU-1"))
	for name, device := range map[string]string{"gone": "gpu-0", "stays": "gpu-1", "again": "gpu-0"} {
		if _, problem := r.prepare(t, r.allocate(t, name, nil, result("a", device))); problem != "" {
			t.Fatal(problem)
		}
	}
	r.record(t, "earlier", func(c *claim.Claim) { c.Name = "again" })
	k := NewReconciler(ReconcilerOptions{Record: r.opts.Record, Lifecycle: r.lifecycle, KubeletRootDir: r.opts.KubeletRootDir, CDIDir: r.opts.CDIDir})
	for _, uid := range []types.UID{"uid-gone", "uid-earlier"} {
		i := claim.ID{Driver: driverName, UID: uid}
		if err := k.endClaim(i, r.opts.Record.Get(driverName, uid)); err != nil {
			t.Error(err)
		}
	}
	var files []string
	for _, pattern := range []string{filepath.Join(r.dir, "plugins", driverName, "dra-device-metadata", "*"), filepath.Join(r.opts.CDIDir, "*")} {
		all, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range all {
			files = append(files, filepath.Base(path))
		}
	}
	want := []string{"ns_again", "ns_stays", driverName + "_metadata_uid-again_a.json", driverName + "_metadata_uid-stays_a.json"}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"uid-gone", "uid-earlier"}, r.lifecycle.ended); diff != "" {
		t.Errorf("ended are (-want +got):\n%s", diff)
	}
}
