package kfd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/test/amdtree"
)

// files returns the files that Read reads.
func files(b *testing.B, sysfs string) []string {
	b.Helper()
	var all []string
	for _, pattern := range []string{"generation_id", "nodes/*/properties", "nodes/*/gpu_id", "nodes/*/mem_banks/*/properties", "nodes/*/*_links/*/properties"} {
		matches, err := filepath.Glob(filepath.Join(directory(sysfs), pattern))
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, matches...)
	}
	return all
}

// BenchmarkRead reads 63 partitions with their links; the floor is to read the same
// files and do nothing with them.
func BenchmarkRead(b *testing.B) {
	tree := amdtree.New(b, amdtree.NewMI300X("CPX", "NPS4"))
	all := files(b, tree.Sysfs())
	b.Run("topology", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Read(tree.Sysfs()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		buffer := make([]byte, 4096)
		for b.Loop() {
			for _, name := range all {
				f, err := os.Open(name)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = f.Read(buffer)
				}
				_ = f.Close()
			}
		}
		b.ReportMetric(float64(len(all)), "files")
	})
}
