package gpu

import (
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// files returns the files that Read reads.
func files(b *testing.B, sysfs string) []string {
	b.Helper()
	var all []string
	for _, pattern := range []string{
		"class/kfd/kfd/topology/generation_id", "class/kfd/kfd/topology/nodes/*/properties", "class/kfd/kfd/topology/nodes/*/gpu_id",
		"class/kfd/kfd/topology/nodes/*/mem_banks/*/properties", "class/kfd/kfd/topology/nodes/*/*_links/*/properties",
		"class/drm/card*[0-9]/dev", "class/drm/renderD*/dev", "module/amdgpu/version",
	} {
		matches, err := filepath.Glob(filepath.Join(sysfs, pattern))
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, matches...)
	}
	for _, name := range []string{
		"vendor", "device", "class", "numa_node", "revision", "unique_id", "product_name", "mem_info_vram_total",
		"current_compute_partition", "current_memory_partition", "available_compute_partition", "available_memory_partition",
	} {
		matches, err := filepath.Glob(filepath.Join(sysfs, "bus/pci/drivers/amdgpu/*", name))
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, matches...)
	}
	return all
}

// BenchmarkRead finds eight MI300X in CPX, 64 partitions; the floor is cat of the same
// files.
func BenchmarkRead(b *testing.B) {
	m := amdtree.NewMI300X("CPX", "NPS4")
	m.Cards = 0 // no other card takes the last partition's minor
	tree := amdtree.New(b, m)
	all := files(b, tree.Sysfs())
	for _, name := range []string{"partitions", "cat"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if name == "cat" {
					sysroot.Cat(b, all)
					continue
				}
				if got, err := Read(tree.Sysfs(), nil); err != nil || len(got.GPUs) != 8 || len(got.Problems) > 0 {
					b.Fatal(err, got.Problems)
				}
			}
		})
	}
}
