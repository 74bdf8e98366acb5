package sandbox

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Existing are the files that match needs, with the device and the inode of each.
type Existing map[string][2]uint64

// Existing returns the files that match, without those below /proc, where processes come and go.
func (n Needs) Existing(p Paths) Existing {
	n = p.at(n)
	files, match := Existing{}, n.matcher()
	for _, pattern := range slices.Concat(n.Read, n.Write, n.Open) {
		if within(pattern, "/proc", p.Procfs) {
			continue
		}
		found, _ := match(pattern)
		for _, path := range found {
			var info unix.Stat_t
			if unix.Stat(path, &info) == nil {
				files[path] = [2]uint64{info.Dev, info.Ino}
			}
		}
	}
	return files
}

// within reports whether a path is one of the trees, or in one.
func within(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return tree != "" && (path == tree || strings.HasPrefix(path, tree+"/")) })
}

// Beyond returns the paths of the files that are not among earlier ones, sorted. A process cannot open files
// that appeared after its start: Landlock's rules are for files that existed then.
func (e Existing) Beyond(earlier Existing) []string {
	var paths []string
	for path, file := range e {
		if was, ok := earlier[path]; !ok || was != file {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
