package dra

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/resource"
)

// metadataFiles returns the files and directories of the option Metadata.
func (r *rig) metadataFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{filepath.Join(r.dir, "plugins", driverName, "dra-device-metadata", "*"), filepath.Join(r.dir, "cdi", "*")} {
		all, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range all {
			files = append(files, filepath.Base(path))
		}
	}
	return files
}

// Verifies that the files with attributes of a claim stay while it is prepared, and go with it when kubelet unprepares
// it, also from a driver that no longer has the option, and that of a claim which is not prepared any more.
func TestUnpreparedMetadata(t *testing.T) {
	for name, later := range map[string]struct{ metadata, failed bool }{
		"on": {true, false}, "off": {false, false}, "off, failed": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.metadata = true
			r.restart(t)
			c := r.allocate(t, "c", nil, result("a", "gpu-0"))
			if _, problem := r.prepare(t, c); problem != "" {
				t.Fatal(problem)
			}
			r.metadata = later.metadata
			if later.failed {
				r.boot = "boot-2"
				r.lifecycle.err = errors.New("the driver is missing")
			}
			r.restart(t)
			if _, problem := r.prepare(t, c); (problem != "") != later.failed {
				t.Fatal(problem)
			}
			if files := r.metadataFiles(t); len(files) != 2 {
				t.Errorf("the claim has the files %v", files)
			}
			if r.unprepare(t, c); len(r.metadataFiles(t)) > 0 {
				t.Errorf("the claim has ended, and its files %v stay", r.metadataFiles(t))
			}
		})
	}
}

// Verifies that nothing stays of the files with attributes when a driver is renamed, without the option, while a claim
// has a device.
func TestMetadataOfARenamedDriver(t *testing.T) {
	t.Parallel()
	r := &rig{lifecycle: &fakeLifecycle{}, cluster: newAPIServer(), dir: t.TempDir()}
	f := frontend(t, r.cluster, r.dir)
	published := roundOf([]config.API{config.APIDRA}, []resource.Device{device("GPU-0")})
	published.Profile.Backends[0].DRA.Metadata = true
	f.Publish(published)
	r.cluster.want(t, "started", driverName+": gpu-0")
	r.connect(t)
	c := r.allocate(t, "c", nil, result("a", "gpu-0"))
	if _, problem := r.prepare(t, c); problem != "" {
		t.Fatal(problem)
	}
	renamed := roundOf([]config.API{config.APIDRA}, []resource.Device{held(device("GPU-0")), device("GPU-1")})
	renamed.Profile.Backends[0].DRA = config.DRA{Driver: "new.accelmux.io"}
	f.Publish(renamed)
	r.cluster.want(t, "renamed", driverName+":", "new.accelmux.io: gpu-1")
	if files := r.metadataFiles(t); len(files) != 2 {
		t.Errorf("the claim has the files %v", files)
	}
	r.unprepare(t, c)
	_ = r.kubelet.Close()
	r.cluster.want(t, "ended", "new.accelmux.io: gpu-1")
	if files := r.metadataFiles(t); len(files) > 0 {
		t.Errorf("the claim has ended, and its files %v stay", files)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "plugins", driverName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the driver's directory is still there: %v", err)
	}
}

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
	r.record(t, "earlier", func(c *holders.ClaimRecord) { c.Name = "again" })
	k := NewReconciler(ReconcilerOptions{Record: r.opts.Record, Lifecycle: r.lifecycle, KubeletRootDir: r.opts.KubeletRootDir, CDIDir: r.opts.CDIDir})
	for _, uid := range []types.UID{"uid-gone", "uid-earlier"} {
		if err := k.endClaim(r.opts.Record.Get(driverName, uid).Claim); err != nil {
			t.Error(err)
		}
	}
	want := []string{"ns_again", "ns_stays", driverName + "_metadata_uid-again_a.json", driverName + "_metadata_uid-stays_a.json"}
	if diff := cmp.Diff(want, r.metadataFiles(t)); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"uid-gone", "uid-earlier"}, r.lifecycle.ended); diff != "" {
		t.Errorf("ended are (-want +got):\n%s", diff)
	}
}
