package device

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/uevent"
)

// A function that Prepare binds to VFIO is healthy while its own driver has it, also one that a preset describes, and is
// not while another driver has a member of its IOMMU group; then nothing is bound. Once that is over it is given out.
func TestGroupOfWhatIsToBeBound(t *testing.T) {
	t.Parallel()
	const at, group = "sys/devices/pci0000:00/0000:01:00.0/", "sys/kernel/iommu_groups/7/devices/"
	tree := acme + at + "driver_override: (null)\n" + at + "iommu_group -> ../../../kernel/iommu_groups/7\n" +
		"sys/bus/pci/drivers/native/\nsys/bus/pci/drivers/vfio-pci/\nsys/class/vfio/7/\ndev/vfio/7: c 240:7\ndev/vfio/vfio: c 10:196\n" +
		group + "0000:01:00.0 -> ../../../../devices/pci0000:00/0000:01:00.0\n" +
		group + "0000:01:00.1 -> ../../../../devices/pci0000:00/0000:01:00.1\nsys/devices/pci0000:00/0000:01:00.1/\n"
	const match, bind = `"match": {"pci": {"vendors": ["1234"]}}`, `"prepare": [{"bind": {"driver": "vfio-pci"}}]`
	for name, kind := range map[string]string{
		"own kind": `{"name": "acme", ` + match + `, "edits": {"nodes": [{"path": "/dev/vfio/{iommu.group}"}], "env": {"A": "1"}}, ` + bind + `}`,
		"vfio-pci": `{"name": "acme", "preset": "vfio-pci", "edits": {"env": {"A": "1"}}, ` + match + `, ` + bind + `}`,
		"sriov":    `{"name": "acme", "preset": "sriov", "id": "acme-{pci.address}", ` + match + `, ` + bind + `}`,
	} {
		for _, driver := range []string{"native", ""} {
			t.Run(name+" with driver "+driver, func(t *testing.T) {
				t.Parallel()
				text := tree
				if driver != "" {
					text += at + "driver -> ../../../bus/pci/drivers/" + driver + "\n"
				}
				run(t, "", text, `{"edits": {"groups": "none"}, "kinds": [`+kind+`]}`, func(r *rig) {
					r.device(acmeID, "is healthy", healthy)
					const other = "sys/devices/pci0000:00/0000:01:00.1/driver"
					r.change(other+" -> ../../../bus/pci/drivers/snd", uevent.Bind, "/devices/pci0000:00/0000:01:00.1", "pci")
					r.device(acmeID, "has a group in use", hasFault(groupInUse, "members of the group: 0000:01:00.1 (snd);"))
					if _, err := r.prepare(false); err == nil || !strings.Contains(err.Error(), "0000:01:00.1 (snd)") || r.content(at+"driver_override") != "(null)" {
						t.Errorf("%v, driver_override %q", err, r.content(at+"driver_override"))
					}
					r.change("- "+other, uevent.Unbind, "/devices/pci0000:00/0000:01:00.1", "pci")
					r.device(acmeID, "is healthy again", healthy)
					if _, err := r.prepare(false); err != nil || r.content(at+"driver_override") != "vfio-pci" {
						t.Errorf("%v, driver_override %q", err, r.content(at+"driver_override"))
					}
				})
			})
		}
	}
}

// A function that VFIO has in its mode without an IOMMU, where its node is noiommu-N, has a fault that says so and what to do, and
// is the same device with an IOMMU, however a kind gives it to containers.
func TestGroupWithoutIOMMU(t *testing.T) {
	t.Parallel()
	const at, group = "sys/devices/pci0000:00/0000:01:00.0/", "sys/kernel/iommu_groups/7/"
	tree := acme + at + "iommu_group -> ../../../kernel/iommu_groups/7\n" + at + "driver -> ../../../bus/pci/drivers/vfio-pci\nsys/bus/pci/drivers/vfio-pci/\n" +
		"sys/class/vfio/noiommu-7/\ndev/vfio/noiommu-7: c 240:7\ndev/vfio/vfio: c 10:196\n" + group + "name: vfio-noiommu\n" +
		group + "devices/0000:01:00.0 -> ../../../../devices/pci0000:00/0000:01:00.0\n"
	for name, kind := range map[string]string{
		"own kind": `{"name": "acme", "match": {"pci": {"vendors": ["1234"]}}, "edits": {"env": {"A": "1"}}}`,
		"vfio-pci": `{"name": "acme", "preset": "vfio-pci", "id": "acme-{pci.address}"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, "", tree, `{"edits": {"groups": "none"}, "kinds": [`+kind+`]}`, func(r *rig) {
				r.device(acmeID, "has no IOMMU", hasFault("no-iommu", "enable the IOMMU in the firmware and the kernel (intel_iommu=on)"))
				r.change("- "+group+"name\n- dev/vfio/noiommu-7\ndev/vfio/7: c 240:7", uevent.Bind, "/devices/pci0000:00/0000:01:00.0", "pci")
				r.device(acmeID, "is healthy", healthy)
			})
		})
	}
}

// A kind whose nodes are those without an IOMMU gives them.
func TestKindWithoutIOMMU(t *testing.T) {
	t.Parallel()
	const at, group = "sys/devices/pci0000:00/0000:01:00.0/", "sys/kernel/iommu_groups/7/"
	tree := acme + at + "iommu_group -> ../../../kernel/iommu_groups/7\n" + at + "driver -> ../../../bus/pci/drivers/vfio-pci\nsys/bus/pci/drivers/vfio-pci/\n" +
		"dev/vfio/noiommu-7: c 240:7\n" + group + "name: vfio-noiommu\n" + group + "devices/0000:01:00.0 -> ../../../../devices/pci0000:00/0000:01:00.0\n"
	run(t, "", tree, `{"edits": {"groups": "none"}, "kinds": [{"name": "acme", "match": {"pci": {"drivers": ["vfio-pci"]}}, "edits": {"nodes": [{"path": "/dev/vfio/noiommu-{iommu.group}"}]}}]}`, func(r *rig) {
		if d := r.device(acmeID, "is healthy", healthy); d.GetEdits().GetDeviceNodes()[0].GetPath() != "/dev/vfio/noiommu-7" {
			t.Errorf("%v", d)
		}
	})
}
