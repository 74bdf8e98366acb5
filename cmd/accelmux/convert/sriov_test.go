package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/test/devicetree"
)

// selectedBy returns what the conversion of a file selects on a tree that was changed by lines, with its nodes.
func selectedBy(t *testing.T, name, lines string) (got []string) {
	t.Helper()
	read := func(suffix string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name+suffix))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text, _, err := SRIOV(Source{Name: name + ".json", File: []byte(read(".json"))})
	if err != nil {
		t.Fatal(err)
	}
	tree := devicetree.New(t, read(".tree")+"\n"+lines)
	for _, k := range compiled(t, name, text) {
		got = append(got, selected(t, match.Finder{Host: tree.Host(), Node: devicetree.Node}, k)...)
	}
	slices.Sort(got)
	return got
}

// A pool without drivers gives the nodes of the driver that is bound, VFIO's, UIO's or none, as the plugin does
// (GetDefaultInfoProvider in its pkg/factory/factory.go).
func TestNodesByTheDriverThatIsBound(t *testing.T) {
	t.Parallel()
	const other = "sys/devices/pci0000:3a/0000:3b:06.0/driver -> ../../../bus/pci/drivers/"
	for lines, want := range map[string]string{"": "hostdevice: 0000:3b:06.0 /dev/vfio/vfio /dev/vfio/42", other + "iavf": "hostdevice: 0000:3b:06.0"} {
		got := selectedBy(t, "sriov-without-drivers", lines)
		if want := []string{want, "uio: 0000:3b:0a.0 /dev/uio0", "vfio: 0000:3b:02.0 /dev/vfio/vfio /dev/vfio/41"}; !slices.Equal(got, want) {
			t.Errorf("after %q:\n%s\nwant\n%s", lines, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Sysfs does not show an interface in another network namespace, nor an HCA with rdma system set netns exclusive
// (ns_type of the kernel's classes net and infiniband; the directories of the classes stay). A function in use is of
// the same pool then, and one of another link type is not.
func TestSelectedWhileInAPod(t *testing.T) {
	t.Parallel()
	const physical, virtual = "sys/devices/pci0000:20/0000:21:00.0/net/ib0", "sys/devices/pci0000:20/0000:21:00.1/"
	const moved = "\n- " + virtual + "net/ib1"
	for name, c := range map[string]struct {
		lines string
		gone  bool
	}{
		"on the node":                      {"", false},
		"interface in a pod":               {moved, false},
		"and no directory":                 {"- " + virtual + "net", false},
		"and the physical function's":      {moved + "\n- " + physical, false},
		"HCA in a pod":                     {moved + "\n- " + virtual + "infiniband/mlx4_1", false},
		"Ethernet":                         {virtual + "net/ib1/type: 1", true},
		"Ethernet, interface in a pod":     {moved + "\n" + physical + "/type: 1", true},
		"no interface at all":              {"- " + virtual + "net\n- " + filepath.Dir(physical), true},
		"an HCA that is none":              {"- " + virtual + "infiniband", true},
		"as the physical one is, not seen": {physical + "/type: 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []string{"mlnx-ib: 0000:21:00.1 /dev/infiniband/rdma_cm /dev/infiniband/uverbs1"}
			if c.gone {
				want = nil
			}
			if got := selectedBy(t, "sriov-link-types", c.lines); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
