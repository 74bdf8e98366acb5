package gpu

import (
	"maps"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/amdtree"
)

// Integrated GPUs are listed as settings want; one without a KFD node has the nodes of DRM, and
// is a problem unless it is listed, or none is wanted. Other GPUs stay.
func TestIntegrated(t *testing.T) {
	m := amdtree.NewMI210()
	m.GPUs = append(m.GPUs[:1],
		amdtree.GPU{Model: amdtree.Raphael, Address: pci.Address{Bus: 0x70}, UniqueID: 0x70},
		amdtree.GPU{Model: amdtree.Raven, Address: pci.Address{Bus: 0x71}, UniqueID: 0x71})
	tree := amdtree.New(t, m)
	for which, want := range map[Integrated]struct{ gpus, problem string }{
		"":                {"0000:63:00.0 0000:70:00.0", "0000:71:00.0"},
		IntegratedCompute: {"0000:63:00.0 0000:70:00.0", "0000:71:00.0"},
		IntegratedAll:     {"0000:63:00.0 0000:70:00.0 0000:71:00.0", ""},
		IntegratedNone:    {"0000:63:00.0", ""},
	} {
		i, err := Read(tree.Sysfs(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var gpus, problems []string
		for _, g := range i.GPUs {
			omitted, err := g.Omitted(which)
			if !omitted {
				gpus = append(gpus, g.PCI.Address.String())
			}
			if err != nil {
				problems = append(problems, g.PCI.Address.String())
			}
			if g.Integrated != (g.PCI.Address.Bus >= 0x70) || g.Computes() != (g.PCI.Address.Bus != 0x71) {
				t.Errorf("%s: %+v", which, g)
			}
			if p := g.Partitions[0]; g.PCI.Address.Bus == 0x71 && (len(g.Partitions) != 1 || p.ID != g.ID || p.Render != 130 || p.VRAM != 256<<20) {
				t.Errorf("%s: %+v", which, g)
			}
		}
		if strings.Join(gpus, " ") != want.gpus || strings.Join(problems, " ") != want.problem || len(i.Problems) > 0 {
			t.Errorf("%s: %v, problems %v, %v", which, gpus, problems, i.Problems)
		}
	}
}

// A GPU of its own without a KFD node is left out, as before: it may be one that is starting.
func TestGraphicsOnly(t *testing.T) {
	m := amdtree.NewMI210()
	m.GPUs = m.GPUs[:1]
	m.GPUs[0].Model.NoKFD = true
	tree := amdtree.New(t, m)
	if i, err := Read(tree.Sysfs(), nil); err != nil || len(i.GPUs) > 0 || len(i.Problems) != 1 || !i.Problems[0].Lost {
		t.Errorf("%+v, %v", i, err)
	}
}

// Versions of firmware are read as the driver writes them, 0 for none.
func TestFirmware(t *testing.T) {
	m := amdtree.NewMI210()
	m.GPUs = m.GPUs[:1]
	m.GPUs[0].Model.Firmware = map[string]uint32{"mec": 0x43, "smc": 0x440f02, "vce": 0, "vcn": 1}
	tree := amdtree.New(t, m)
	i, err := Read(tree.Sysfs(), nil)
	if err != nil || len(i.Problems) > 0 || !maps.Equal(i.GPUs[0].Firmware, map[string]uint32{"mec": 0x43, "smc": 0x440f02}) {
		t.Errorf("%+v, %v", i, err)
	}
}
