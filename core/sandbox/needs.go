package sandbox

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/text"
)

// Needs are what a process needs beyond its program and its libraries. Paths are patterns in the
// syntax of path.Match; one that ends in "/**" stands for a directory and everything below it.
type Needs struct {
	// Read are files and directories that it reads, List directories of which it reads the names of the
	// entries alone, also in all directories below, Write files and directories that it reads and writes, and
	// Open device nodes that it opens for ioctls.
	Read  []string `json:"read,omitempty"`
	List  []string `json:"list,omitempty"`
	Write []string `json:"write,omitempty"`
	Open  []string `json:"open,omitempty"`
	// Blocks are the exact paths of block devices among Open: no other entry gives one.
	Blocks []string `json:"blocks,omitempty"`
	// Capabilities are names as in capabilities(7).
	Capabilities []string `json:"capabilities,omitempty"`
	// SystemCalls are groups as in systemd.exec(5).
	SystemCalls []string `json:"systemCalls,omitempty"`
	// Interfaces are network interfaces of the node whose events it needs. They keep it in the agent's
	// network namespace, where it has no more sockets than in one of its own.
	Interfaces []string `json:"interfaces,omitempty"`
}

// Join returns the needs of both.
func (n Needs) Join(o Needs) Needs {
	return Needs{
		Read: union(n.Read, o.Read), List: union(n.List, o.List), Write: union(n.Write, o.Write), Open: union(n.Open, o.Open), Blocks: union(n.Blocks, o.Blocks),
		Capabilities: union(n.Capabilities, o.Capabilities), SystemCalls: union(n.SystemCalls, o.SystemCalls),
		Interfaces: union(n.Interfaces, o.Interfaces),
	}
}

// Without returns the entries of n that o does not cover.
func (n Needs) Without(o Needs) Needs {
	return Needs{
		Read:         uncovered(n.Read, slices.Concat(o.Read, o.Write)),
		List:         uncovered(n.List, slices.Concat(o.List, o.Read, o.Write, o.Open)),
		Write:        uncovered(n.Write, o.Write),
		Open:         uncovered(n.Open, o.Open),
		Capabilities: uncovered(n.Capabilities, o.Capabilities), SystemCalls: uncovered(n.SystemCalls, o.SystemCalls),
		Interfaces: uncovered(n.Interfaces, o.Interfaces),
	}
}

// Equal reports whether both have the same entries, which are sorted.
func (n Needs) Equal(o Needs) bool {
	return slices.Equal(n.Read, o.Read) && slices.Equal(n.List, o.List) && slices.Equal(n.Write, o.Write) && slices.Equal(n.Open, o.Open) && slices.Equal(n.Blocks, o.Blocks) &&
		slices.Equal(n.Capabilities, o.Capabilities) && slices.Equal(n.SystemCalls, o.SystemCalls) && slices.Equal(n.Interfaces, o.Interfaces)
}

// Empty reports whether there are none.
func (n Needs) Empty() bool {
	return len(n.Read)+len(n.List)+len(n.Write)+len(n.Open)+len(n.Capabilities)+len(n.SystemCalls)+len(n.Interfaces) == 0
}

// maxYAML bounds the text of YAML, in bytes.
const maxYAML = 2 << 10

// YAML returns the needs as the configuration's allow.process has them, on one line of at most 2 KiB.
func (n Needs) YAML() string {
	return text.YAML(maxYAML, text.List{Field: "read", Entries: n.Read}, text.List{Field: "list", Entries: n.List}, text.List{Field: "write", Entries: n.Write}, text.List{Field: "open", Entries: n.Open},
		text.List{Field: "capabilities", Entries: n.Capabilities}, text.List{Field: "systemCalls", Entries: n.SystemCalls})
}

// Covers reports whether o needs nothing beyond n.
func (n Needs) Covers(o Needs) bool { return o.Without(n).Empty() }

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// uncovered returns the entries that no entry of by equals or, ending in "/**", contains.
func uncovered(entries, by []string) []string {
	var left []string
	for _, entry := range entries {
		if !slices.ContainsFunc(by, func(pattern string) bool { return covers(pattern, entry) }) {
			left = append(left, entry)
		}
	}
	return left
}

func covers(pattern, entry string) bool {
	if pattern == entry {
		return true
	}
	dir, all := strings.CutSuffix(pattern, "/**")
	return all && (strings.HasPrefix(entry, dir+"/") || entry == dir)
}

// Paths are the places of the host's trees, as the process sees them: absolute, "/sys", "/dev" and
// "/proc" unless a container or a test has them elsewhere.
type Paths struct{ Sysfs, Devfs, Procfs string }

// at returns the needs with the paths that they have in this process.
func (p Paths) at(n Needs) Needs {
	move := func(patterns []string) []string {
		moved := make([]string, len(patterns))
		for i, pattern := range patterns {
			moved[i] = p.place(pattern)
		}
		return moved
	}
	n.Read, n.List, n.Write, n.Open, n.Blocks = move(n.Read), move(n.List), move(n.Write), move(n.Open), move(n.Blocks)
	return n
}

// literal makes a path a pattern that matches only this path.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func (p Paths) place(pattern string) string {
	for tree, at := range map[string]string{"/sys": p.Sysfs, "/dev": p.Devfs, "/proc": p.Procfs} {
		if rest, ok := strings.CutPrefix(pattern, tree); ok && (rest == "" || rest[0] == '/') && at != "" && at != tree {
			return literal.Replace(path.Clean(at)) + rest
		}
	}
	return pattern
}

// gives reports whether patterns stand for a file, or for a directory above it.
func gives(patterns []string, file string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		dir, all := strings.CutSuffix(pattern, "/**")
		if all && dir == "" {
			dir = "/"
		}
		for at := file; ; at = path.Dir(at) {
			if ok, err := path.Match(dir, at); err == nil && ok && (all || at == file) {
				return true
			}
			if at == "/" {
				return false
			}
		}
	})
}

// expand returns what each pattern of the needs stands for, without what is in a directory that the process may write to:
// it has that already, and may have put a link there; and without block devices but those of Blocks. This
// is the only place that expands patterns.
func (n Needs) expand() map[string]found {
	all := map[string]found{}
	for _, pattern := range slices.Concat(n.Read, n.List, n.Write, n.Open) {
		if _, ok := all[pattern]; !ok {
			all[pattern] = find(pattern)
		}
	}
	var written []string
	for _, pattern := range n.Write {
		if !strings.HasSuffix(pattern, "/**") {
			continue
		}
		for _, root := range all[pattern].files {
			if root, err := filepath.EvalSymlinks(root); err == nil {
				written = append(written, root)
			}
		}
	}
	own := func(file string) bool {
		for ; len(file) > 1; file = path.Dir(file) { // "/" or "."
			parent, err := filepath.EvalSymlinks(path.Dir(file))
			if err != nil || within(parent, written...) {
				return true
			}
		}
		return false
	}
	for pattern, f := range all {
		_, exact := plainName(pattern)
		exact = exact && slices.Contains(n.Blocks, pattern)
		f.files = slices.DeleteFunc(f.files, func(file string) bool { return own(file) || isBlock(file, exact) })
		f.dirs = slices.DeleteFunc(f.dirs, own)
		all[pattern] = f
	}
	return all
}

// isBlock reports whether a file is a block device, or a link to one. One that is meant by its exact path is none.
func isBlock(file string, exact bool) bool {
	if info, err := os.Lstat(file); exact && err == nil && info.Mode()&os.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(file)
	return err == nil && info.Mode().Type() == os.ModeDevice
}

// within reports whether a path is one of the trees, or in one.
func within(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return tree != "" && (path == tree || strings.HasPrefix(path, tree+"/")) })
}
