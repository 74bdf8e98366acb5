package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/test/devicetree"
)

// The files for Multus are those of the listed devices of the kinds that have a resource; nothing is written on a
// node without Multus, and what cannot be written is a problem.
func TestDeviceInfo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("presets/testdata/sriov.tree")
	if err != nil {
		t.Fatal(err)
	}
	tree := devicetree.New(t, string(text))
	multus := filepath.Join(tree.Root, "var/run/k8s.cni.cncf.io")
	files := func() map[string]string {
		all := map[string]string{}
		entries, _ := filepath.Glob(filepath.Join(multus, "devinfo/dp/*"))
		for _, at := range entries {
			content, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(at)] = string(content)
		}
		return all
	}
	const settings = `{"presets": ["sriov"], "kinds": [{"name": "pool", "preset": "sriov", "deviceInfo": {"resource": "intel.com/pool"},
		"match": {"pci": {"classes": ["02"]}, "where": "pci.address in ['0000:3b:00.2', '0000:3b:00.3']"}}]}`
	b, _ := on(t, tree.Host(), settings)
	b.infoDir = filepath.Join(multus, "devinfo")
	set := b.engineSettings()
	scan := func(name string, want map[string]string) {
		t.Helper()
		if _, problems := engine.ListOnce(options, set); len(problems) > 2 { // IDs that both kinds have
			t.Errorf("%s: %q", name, problems)
		}
		if diff := cmp.Diff(want, files()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	scan("without Multus", map[string]string{})
	const gone, other = "intel.com-pool-0000:3b:00.7-device.json", "intel.com-pool-b-0000:3b:00.7-device.json"
	tree.Change(t, "var/run/k8s.cni.cncf.io/devinfo/dp/"+gone+": of an earlier process\nvar/run/k8s.cni.cncf.io/devinfo/dp/"+other+": x")
	const two, three = "intel.com-pool-0000:3b:00.2-device.json", "intel.com-pool-0000:3b:00.3-device.json"
	want := map[string]string{
		other: "x\n",
		two:   `{"pci":{"pci-address":"0000:3b:00.2","pf-pci-address":"0000:3b:00.0","rdma-device":"mlx5_3"},"type":"pci","version":"1.1.0"}`,
		three: `{"pci":{"pci-address":"0000:3b:00.3","pf-pci-address":"0000:3b:00.0"},"type":"pci","version":"1.1.0"}`,
	}
	scan("with Multus", want)
	tree.Change(t, "- sys/bus/pci/devices/0000:3b:00.3")
	if err := os.WriteFile(filepath.Join(multus, "devinfo/dp", two), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	delete(want, three)
	scan("with another file, and without a function", want)
	if err := b.Configure(t.Context(), merged(t, `{"presets": ["sriov"]}`), tree.Host()); err != nil {
		t.Fatal(err)
	}
	if got := files(); len(got) != 1 {
		t.Errorf("of a kind that is no longer configured: %v", got)
	}
	if err := os.RemoveAll(filepath.Join(multus, "devinfo/dp")); err != nil {
		t.Fatal(err)
	}
	tree.Change(t, "var/run/k8s.cni.cncf.io/devinfo/dp: no directory")
	if _, problems := engine.ListOnce(options, set); len(problems) == 0 {
		t.Error("no problem where no file can be written")
	}
}
