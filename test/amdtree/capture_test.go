package amdtree

import (
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/sysroot"
)

func captured(t *testing.T, name string) (Machine, *Tree) {
	t.Helper()
	archive := sysroot.Captured(t, name)
	m, err := Capture(archive)
	if err != nil {
		t.Fatal(err)
	}
	return m, write(t, m)
}

// The KFD side of a captured machine is the capture to the byte, and the other
// sides have each of its render minors.
func TestCapture(t *testing.T) {
	for name, want := range map[string]struct{ gpus, partitions, moved int }{
		"topology-parsing": {2, 2, 1}, "topo-mi210-xgmi-pcie": {8, 8, 0}, "topo-mi300-cpx": {8, 63, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, tree := captured(t, "amd/"+name+".tar.gz")
			if got := len(renders(t, tree)); len(m.GPUs) != want.gpus || got != want.partitions {
				t.Errorf("%d GPUs, %d partitions; want %d, %d", len(m.GPUs), got, want.gpus, want.partitions)
			}
			archive := sysroot.Captured(t, "amd/"+name+".tar.gz")
			raw := &capture{files: map[string]string{}}
			if err := raw.unpack(archive); err != nil {
				t.Fatal(err)
			}
			moved := 0
			for file, text := range raw.files {
				if got := read(t, tree.Root, topologyDir, file); got != text {
					moved++
				}
			}
			if moved != want.moved {
				t.Errorf("%d files are not as they were captured, want %d", moved, want.moved)
			}
			all := list(t, tree)
			for gpu := range m.GPUs {
				_, minors := tree.Minors(gpu)
				if len(minors) == 0 || tree.Node(gpu, 0) == "" {
					t.Errorf("GPU %d has no minor or no node", gpu)
				}
			}
			for _, r := range renders(t, tree) {
				if all[filepath.Join("sys/class/drm", "renderD"+strconv.Itoa(r))] == "" {
					t.Errorf("DRM has no renderD%d", r)
				}
			}
		})
	}
}

// A captured machine that was switched is made by the rules from then on, and these
// give the links that were captured.
func TestRulesAreTheCaptures(t *testing.T) {
	_, mi210 := captured(t, "amd/topo-mi210-xgmi-pcie.tar.gz")
	if got, want := linkCounts(t, write(t, NewMI210())), linkCounts(t, mi210); !maps.Equal(got, want) {
		t.Errorf("links of the MI210 are %v, captured were %v", got, want)
	}
	_, tree := captured(t, "amd/topo-mi300-cpx.tar.gz")
	before := linkCounts(t, tree)
	if err := tree.SwitchPartition(3, "SPX", "NPS1"); err != nil {
		t.Fatal(err)
	}
	if got := renders(t, tree); len(got) != 63-7 {
		t.Errorf("%d partitions after the switch, want 56", len(got))
	}
	if err := tree.SwitchPartition(3, "CPX", "NPS4"); err != nil {
		t.Fatal(err)
	}
	after := linkCounts(t, tree)
	maps.DeleteFunc(after, func(kind string, _ int) bool { return strings.HasPrefix(kind, "p2p") }) // not in the capture
	if !maps.Equal(before, after) {
		t.Errorf("links are %v, captured were %v", after, before)
	}
}
