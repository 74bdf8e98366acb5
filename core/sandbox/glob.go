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

// glob returns the existing files that match an absolute pattern of path.Match, sorted; none for one beyond the bounds.
func glob(pattern string) (existing []string) {
	files, compared := []string{"/"}, 0
	for segment := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		var next []string
		name, plain := plainName(segment)
		for _, dir := range files {
			if plain {
				next = append(next, path.Join(dir, name))
				continue
			}
			names, read := matching(dir, segment, maxCompared-compared)
			if compared += read; compared >= maxCompared || len(next)+len(names) > maxMatches {
				return nil
			}
			for _, name := range names {
				next = append(next, path.Join(dir, name))
			}
		}
		files = next
	}
	for _, file := range files {
		if _, err := os.Lstat(file); err == nil {
			existing = append(existing, file)
		}
	}
	return existing
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
