package sandbox

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// appearing returns the needs for whose files a process is replaced when they appear, of needs with the paths of this
// process: what it opens and writes to, and what it reads of device nodes. Landlock's rules are for files that existed when
// the process started. What else it reads or lists is not among them: ldconfig, for example, which makes its cache again,
// would replace all processes at once. Below /proc, processes come and go.
func (n Needs) appearing(p Paths) Needs {
	noNode := func(pattern string) bool { return !within(pattern, "/dev", p.Devfs) }
	ofProcess := func(pattern string) bool { return within(pattern, "/proc", p.Procfs) }
	return Needs{
		Read:  slices.DeleteFunc(slices.Clone(n.Read), noNode),
		Write: slices.DeleteFunc(slices.Clone(n.Write), ofProcess),
		Open:  slices.DeleteFunc(slices.Clone(n.Open), ofProcess), Blocks: n.Blocks,
	}
}

// existing are files, each with what tells it from a later file of the same path: its device, its inode, and the seconds and
// nanoseconds of its birth, as file systems use the number of a deleted inode again. The birth is 0 where the file system
// has none (statx(2)).
type existing map[string][4]uint64

// existing returns the first maxMatches files of those that the needs were expanded to. A name that is not UTF-8 is left
// out: the shim's message could not have it.
func (n Needs) existing(all map[string]found) existing {
	files := existing{}
	for _, pattern := range slices.Concat(n.Read, n.Write, n.Open) {
		for _, path := range all[pattern].files {
			var info unix.Statx_t
			if len(files) < maxMatches && utf8.ValidString(path) && unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &info) == nil {
				files[path] = [4]uint64{unix.Mkdev(info.Dev_major, info.Dev_minor), info.Ino, uint64(info.Btime.Sec), uint64(info.Btime.Nsec)}
			}
		}
	}
	return files
}

// beyond returns the paths of the files that are not among earlier ones, sorted.
func (e existing) beyond(earlier existing) []string {
	var paths []string
	for path, file := range e {
		if was, ok := earlier[path]; !ok || was != file {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
