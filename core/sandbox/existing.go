package sandbox

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Existing are the files that match needs, each with what tells it from a later file of the same path: its device, its
// inode, and the seconds and nanoseconds of its birth, as file systems use the number of a deleted inode again. The birth
// is 0 where the file system has none (statx(2)).
type Existing map[string][4]uint64

// Existing returns the files that match, without those below /proc, where processes come and go.
func (n Needs) Existing(p Paths) Existing {
	n = p.at(n)
	files, match := Existing{}, n.matcher()
	for _, pattern := range slices.Concat(n.Read, n.List, n.Write, n.Open) {
		if within(pattern, "/proc", p.Procfs) {
			continue
		}
		found, _ := match(pattern)
		for _, path := range found {
			var info unix.Statx_t
			if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &info) == nil {
				files[path] = [4]uint64{unix.Mkdev(info.Dev_major, info.Dev_minor), info.Ino, uint64(info.Btime.Sec), uint64(info.Btime.Nsec)}
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
