package intel

import (
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// BenchmarkRead finds eight N3000 with their registers, as the reader and as the driver,
// which knows their firmware from before; the floor is cat of the reader's files.
func BenchmarkRead(b *testing.B) {
	tree := write(b, fpgatree.NewMany(8))
	var files []string
	record := func(path string, limit int) ([]byte, error) {
		content, err := sysfs.Read(path, limit)
		if err == nil {
			files = append(files, path)
		}
		return content, err
	}
	if _, err := read(reader{root: tree.Sysfs(), file: record}, func() {}); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"vendor", "device", "class", "numa_node"} { // what package pci reads
		matches, err := filepath.Glob(filepath.Join(tree.Sysfs(), "bus/pci/devices/*:11:00.0", name))
		if err != nil || len(matches) != 1 {
			b.Fatal(matches, err)
		}
		for range 8 {
			files = append(files, matches[0])
		}
	}
	d := on(tree, DFL)
	reading(b, d)
	for _, name := range []string{"cards", "driver", "cat"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				switch name {
				case "cat":
					sysroot.Cat(b, files)
					continue
				case "driver":
					if r := d.Read(); len(r.Cards) != 8 {
						b.Fatal(r.Problems)
					}
					continue
				}
				if got, err := Read(tree.Sysfs()); err != nil || len(got.Cards) != 8 || len(got.Problems) > 0 {
					b.Fatal(err, told(got.Problems))
				}
			}
			b.ReportMetric(float64(len(files)), "files")
		})
	}
}
