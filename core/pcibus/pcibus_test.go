package pcibus

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes a function below a root of sysfs, as the kernel has it: a link into
// /sys/devices. above is the path of what is above it.
func write(t *testing.T, sysfs, above, address, class, vendor, device, driver string) {
	t.Helper()
	dir := filepath.Join(sysfs, "devices", above, address)
	for _, d := range []string{dir, filepath.Join(sysfs, "bus/pci/devices")} {
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // as in sysfs
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"class": class, "vendor": vendor, "device": device} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if driver != "" {
		link(t, "../../../bus/pci/drivers/"+driver, filepath.Join(dir, "driver"))
	}
	link(t, filepath.Join("../../../devices", above, address), filepath.Join(sysfs, "bus/pci/devices", address))
}

func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

// TestRead verifies what counts as an accelerator. IDs and classes are those of real
// machines: jaypipes/ghw's captures with a Tesla P100 and with QEMU's test accelerator,
// servers with ASPEED and Matrox displays, and a laptop.
func TestRead(t *testing.T) {
	const below = "pci0000:00/0000:00:01.0"
	sysfs := t.TempDir()
	for _, f := range [][]string{
		{"pci0000:00", "0000:00:00.0", "0x060000", "0x8086", "0x29c0", ""},
		{"pci0000:00", "0000:00:02.0", "0x030000", "0x1af4", "0x1050", "virtio-pci"},
		{"pci0000:00", "0000:00:02.1", "0x030000", "0x8086", "0x46a6", "i915"},
		{"pci0000:00", "0000:00:0b.0", "0x120000", "0x8086", "0x7d1d", "intel_vpu"},
		{below, "0000:03:00.0", "0x030000", "0x1a03", "0x2000", "ast"},
		{below, "0000:04:00.0", "0x030000", "0x102b", "0x0536", "mgag200"},
		{below, "0000:05:00.0", "0x030200", "0x10de", "0x15f8", ""},
		{below, "0000:06:00.0", "0x030000", "0x10DE", "0x2684", "nvidia"},
		{below, "0000:06:00.1", "0x040300", "0x10de", "0x22ba", "snd_hda_intel"},
		{below, "0000:07:00.0", "0x038000", "0x1002", "0x740f", "amdgpu"},
		{below, "0000:08:00.0", "0x120000", "0x1002", "0x74a1", "amdgpu"},
		{below, "0000:09:00.0", "0x030000", "0x1002", "0x1638", "amdgpu"}, // an iGPU ...
		{below, "0000:09:00.2", "0x108000", "0x1022", "0x15df", "ccp"},    // ... of this CPU
		{below, "0000:0a:00.0", "0x120000", "0x10ee", "0x5000", "xclmgmt"},
		{below, "0000:0a:00.1", "0x120000", "0x10ee", "0x5001", "xocl"},
		{below, "0000:0b:00.0", "0x120000", "0x8086", "0x09c4", "dfl-pci"},
		{below, "0000:0c:00.0", "0x120000", "0x1b36", "0x0005", ""},
		{below, "0000:0d:00.0", "0x030200", "0x10de", "0x20b0", "vfio-pci"},
		{below, "0000:0e:00.0", "0x068000", "0x10de", "0x1af1", "nvidia-nvswitch"},
		{below, "0000:0f:00.0", "0x020000", "0x1d0f", "0xec20", "ena"},
		{below, "0000:10:00.0", "nothing", "0x10de", "0x15f8", ""},
	} {
		write(t, sysfs, f[0], f[1], f[2], f[3], f[4], f[5])
	}
	write(t, sysfs, below, "0000:0b:00.1", "0x120000", "0x8086", "0x09c5", "dfl-pci")
	link(t, "../0000:0b:00.0", filepath.Join(sysfs, "devices", below, "0000:0b:00.1/physfn"))
	// Cards that a virtual machine has but for the function that manages them.
	write(t, sysfs, below, "0000:12:00.0", "0x120000", "0x10ee", "0x5000", "xclmgmt")
	write(t, sysfs, below, "0000:12:00.1", "0x120000", "0x10ee", "0x5001", "vfio-pci")
	write(t, sysfs, below, "0000:13:00.0", "0x120000", "0x8086", "0x09c4", "dfl-pci")
	write(t, sysfs, below, "0000:13:00.1", "0x120000", "0x8086", "0x09c5", "vfio-pci")
	link(t, "../0000:13:00.0", filepath.Join(sysfs, "devices", below, "0000:13:00.1/physfn"))
	link(t, "../../../devices/gone", filepath.Join(sysfs, "bus/pci/devices/0000:11:00.0"))

	table := Table{
		{"nvidia", "10de", "", "03"}, {"amd", "1002", "", "03"}, {"amd", "1002", "", "12"}, {"fpga", "8086", "", "12"}, {"fpga", "10ee", "", "12"}, {"acme", "1d0f", "ec20", "020000"},
		{"other", "10de", "15f8", "0302"},
	}
	got, err := Read(sysfs, table)
	if err != nil {
		t.Fatal(err)
	}
	want := []Accelerator{
		{"0000:05:00.0", "10de", "15f8", "0302", "", []string{"nvidia", "other"}},
		{"0000:06:00.0", "10de", "2684", "0300", "nvidia", []string{"nvidia"}},
		{"0000:07:00.0", "1002", "740f", "0380", "amdgpu", []string{"amd"}},
		{"0000:08:00.0", "1002", "74a1", "1200", "amdgpu", []string{"amd"}},
		{"0000:0a:00.0", "10ee", "5000", "1200", "xclmgmt", []string{"fpga"}},
		{"0000:0b:00.0", "8086", "09c4", "1200", "dfl-pci", []string{"fpga"}},
		{"0000:0c:00.0", "1b36", "0005", "1200", "", nil},
		{"0000:0f:00.0", "1d0f", "ec20", "0200", "ena", []string{"acme"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accelerators (-want +got):\n%s", diff)
	}
	for backend, want := range map[string]bool{"nvidia": true, "mock": false} {
		if table.Has(backend) != want {
			t.Errorf("the table has %s: %v", backend, !want)
		}
	}
	if a := got[0]; !a.Covered("other") || a.Covered("amd") || a.Backend() != "nvidia" || got[6].Backend() != "" {
		t.Errorf("covered by %q and %q", a.Backends, got[6].Backends)
	}
	if _, err := Read(t.TempDir(), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a PCI bus: %v", err)
	}
}

// TestReadPossible verifies what may be an accelerator although Read leaves it out: an NPU, a GPU
// that is a display controller, and what has a device of the class accel or an HCA.
func TestReadPossible(t *testing.T) {
	const below = "pci0000:00/0000:00:01.0"
	sysfs := t.TempDir()
	for _, f := range [][]string{
		{"pci0000:00", "0000:00:02.0", "0x038000", "0x1af4", "0x1050", "virtio-pci"},
		{"pci0000:00", "0000:00:02.1", "0x030000", "0x8086", "0x46a6", "i915"},
		{"pci0000:00", "0000:00:0b.0", "0x120000", "0x8086", "0x7d1d", "intel_vpu"},
		{below, "0000:03:00.0", "0x038000", "0x8086", "0x56c0", "xe"},
		{below, "0000:04:00.0", "0x030200", "0x1e3e", "0x0001", ""},
		{below, "0000:05:00.0", "0x030200", "0x10de", "0x15f8", "vfio-pci"},
		{below, "0000:06:00.0", "0x020700", "0x15b3", "0x1017", "mlx5_core"},
		{below, "0000:07:00.0", "0x020000", "0x15b3", "0x1017", "mlx5_core"},
		{below, "0000:08:00.0", "0x0b4000", "0x1ac1", "0x089a", "apex"},
	} {
		write(t, sysfs, f[0], f[1], f[2], f[3], f[4], f[5])
	}
	for _, dir := range []string{"0000:06:00.0/infiniband", "0000:08:00.0/accel"} {
		if err := os.MkdirAll(filepath.Join(sysfs, "devices", below, dir), 0o755); err != nil { //nolint:gosec // as in sysfs
			t.Fatal(err)
		}
	}
	got, err := ReadPossible(sysfs)
	if err != nil {
		t.Fatal(err)
	}
	want := []Accelerator{
		{"0000:00:0b.0", "8086", "7d1d", "1200", "intel_vpu", nil},
		{"0000:03:00.0", "8086", "56c0", "0380", "xe", nil},
		{"0000:04:00.0", "1e3e", "0001", "0302", "", nil},
		{"0000:06:00.0", "15b3", "1017", "0207", "mlx5_core", nil},
		{"0000:08:00.0", "1ac1", "089a", "0b40", "apex", nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("possible accelerators (-want +got):\n%s", diff)
	}
	if _, err := ReadPossible(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a PCI bus: %v", err)
	}
}
