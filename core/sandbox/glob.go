package sandbox

import (
	"os"
	"path"
	"slices"
	"strings"
)

// The bounds of what a pattern costs: the files that it stands for, and the names that are compared to find them.
const (
	maxMatches  = 4096
	maxCompared = 1 << 16
)

// found is what a pattern stands for now.
type found struct {
	// files are the existing files that match, sorted; for a pattern that ends in "/**" the directory.
	files []string
	// dirs are the directories that must be listed to find them, without "/".
	dirs []string
	// steps are where a file that matches, or a directory that leads to one, would appear.
	steps []step
}

// step is a directory, which need not exist, and the part of a pattern that names in it are compared with.
type step struct{ dir, name string }

// find returns what an absolute pattern of path.Match stands for, or one that ends in "/**"; nothing but steps for one
// beyond the bounds.
func find(pattern string) (f found) {
	paths, compared, wild := []string{"/"}, 0, false
	for segment := range strings.SplitSeq(strings.Trim(strings.TrimSuffix(pattern, "/**"), "/"), "/") {
		if segment == "" { // the root
			continue
		}
		var next []string
		name, plain := plainName(segment)
		wild = wild || !plain
		for _, dir := range paths {
			f.steps = append(f.steps, step{dir, segment})
			if wild && dir != "/" && exists(dir) {
				f.dirs = append(f.dirs, dir)
			}
			if plain {
				next = append(next, path.Join(dir, name))
				continue
			}
			names, read := matching(dir, segment, maxCompared-compared)
			if compared += read; compared >= maxCompared || len(next)+len(names) > maxMatches {
				return found{steps: f.steps}
			}
			for _, name := range names {
				next = append(next, path.Join(dir, name))
			}
		}
		paths = next
	}
	for _, file := range paths {
		if exists(file) {
			f.files = append(f.files, file)
		}
	}
	return f
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// plainName returns the only name that a part of a pattern matches, if there is only one.
func plainName(segment string) (string, bool) {
	var name strings.Builder
	for i := 0; i < len(segment); i++ {
		switch segment[i] {
		case '*', '?', '[':
			return "", false
		case '\\':
			i++
		}
		if i < len(segment) {
			name.WriteByte(segment[i])
		}
	}
	return name.String(), true
}

// matching returns the names in a directory that match a part of a pattern, sorted, and how many it read, at most about most.
func matching(dir, segment string, most int) (names []string, read int) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() { // a FIFO would wait for a writer
		return nil, 0
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, 0
	}
	defer func() { _ = f.Close() }() // it was only read
	for read < most {
		some, err := f.Readdirnames(256)
		for _, name := range some {
			if ok, err := path.Match(segment, name); ok && err == nil {
				names = append(names, name)
			}
		}
		if read += len(some); err != nil {
			break // the end, or what cannot be read
		}
	}
	slices.Sort(names)
	return names, read
}
