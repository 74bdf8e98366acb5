package pci

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/sysroot"
)

// Every form of an address becomes the one that the kernel writes.
func TestAddressForms(t *testing.T) {
	for in, want := range map[string]string{
		"0000:65:00.0":     "0000:65:00.0",
		"00000000:65:00.0": "0000:65:00.0",
		"00000000:C1:1F.7": "0000:c1:1f.7",
		"0001:00:00.0":     "0001:00:00.0",
		"00010000:E1:00.0": "10000:e1:00.0",
		"10000:e1:00.0":    "10000:e1:00.0",
		"ABCD1234:01:02.3": "abcd1234:01:02.3",
		"ffff:ff:1f.7":     "ffff:ff:1f.7",
		"65:00.0":          "0000:65:00.0",
		"0:6:0.0":          "0000:06:00.0",
	} {
		at, err := ParseAddress(in)
		if err != nil || at.String() != want {
			t.Errorf("%q: %q, %v; want %q", in, at, err, want)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	for _, in := range []string{
		"", ".", ":", "::.", "0000:65:00", "0000:65:00.", "0000:65:00.8", "0000:65:20.0", "0000:100:00.0",
		"100000000:65:00.0", "0000:65:00.00", "0000:-1:00.0", "0000:+1:00.0", "0x00:65:00.0", "0000:6_5:00.0",
		" 0000:65:00.0", "0000:65:00.0\n", "1:2:3:4.5", "0000:65:00.0.0", ":65:00.0", "pci0000:00",
	} {
		if at, err := ParseAddress(in); err == nil {
			t.Errorf("%q was read as %s", in, at)
		} else if !strings.Contains(err.Error(), "such as 0000:65:00.0") {
			t.Errorf("%q: the error does not say what is right: %v", in, err)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"0000:65:00.0", "00010000:E1:00.0", "65:00.0", "::.", "0:0:0.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseAddress(s)
		if err != nil {
			return
		}
		if again, err := ParseAddress(at.String()); err != nil || again != at {
			t.Errorf("%q: %s is read as %v, %v", s, at, again, err)
		}
	})
}

// plug makes a device under a root port, laid out as sysfs does.
func plug(sysfs sysroot.Files, id string, files map[string]string) (dir string) {
	dir = "devices/pci0000:00/0000:00:01.0/0000:01:00.0/" + id
	for name, text := range files {
		sysfs.File(dir+"/"+name, text+"\n")
	}
	sysfs.Link("bus/pci/devices/"+id, sysfs.Path(dir))
	return dir
}

func gpu(class, numa string) map[string]string {
	return map[string]string{"vendor": "0x10de", "device": "0x2335", "class": class, "numa_node": numa}
}

func TestReadDevice(t *testing.T) {
	sysfs := sysroot.NewFiles(t)
	dir := plug(sysfs, "10000:e1:00.0", gpu("0x030200", "1"))
	sysfs.Link(dir+"/driver", "../../bus/pci/drivers/nvidia")
	sysfs.Link(dir+"/iommu_group", "../../kernel/iommu_groups/42")
	at, err := ParseAddress("00010000:E1:00.0")
	if err != nil {
		t.Fatal(err)
	}
	d, err := ReadDevice(sysfs.Root, at)
	if err != nil {
		t.Fatal(err)
	}
	if d.Vendor != 0x10de || d.ID != 0x2335 || d.Class != 0x030200 || d.NUMANode != 1 || d.Driver != "nvidia" || d.IOMMUGroup != "42" {
		t.Errorf("%+v", d)
	}
	want := []Address{{Device: 1}, {Bus: 1}}
	if !slices.Equal(d.Parents, want) {
		t.Errorf("parents are %v, want %v", d.Parents, want)
	}
}

// What the kernel does not report is unknown; a device that does not exist is fs.ErrNotExist.
func TestReadDeviceWithLittle(t *testing.T) {
	sysfs := sysroot.NewFiles(t)
	plug(sysfs, "0000:65:00.0", gpu("0x030000", "-1"))
	d, err := ReadDevice(sysfs.Root, Address{Bus: 0x65})
	if err != nil || d.NUMANode != -1 || d.Driver != "" || d.IOMMUGroup != "" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := ReadDevice(sysfs.Root, Address{Bus: 0x66}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing device: %v", err)
	}
}

// One device that cannot be read does not hide the others.
func TestList(t *testing.T) {
	sysfs := sysroot.NewFiles(t)
	plug(sysfs, "10000:e1:00.0", gpu("0x030200", "0"))
	plug(sysfs, "0000:65:00.0", gpu("0x030000", "0"))
	plug(sysfs, "0000:66:00.0", gpu("0x068000", "0")) // a switch
	plug(sysfs, "0000:67:00.0", gpu("many", "0"))
	plug(sysfs, "0000:68:00.0", map[string]string{"vendor": "0x8086", "device": "0x1", "class": "0x030000"})
	devices, err := List(sysfs.Root, 0x10de, 0x0300, 0x0302)
	if err == nil || !strings.Contains(err.Error(), `0000:67:00.0: class is "many"`) {
		t.Errorf("the device that cannot be read: %v", err)
	}
	var ids []string
	for _, d := range devices {
		ids = append(ids, d.Address.String())
	}
	if want := []string{"0000:65:00.0", "10000:e1:00.0"}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	if all, _ := List(sysfs.Root, 0x10de); len(all) != 3 {
		t.Errorf("without a class: %v", all)
	}
	if _, err := List(t.TempDir(), 0x10de); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a PCI bus: %v", err)
	}
}
