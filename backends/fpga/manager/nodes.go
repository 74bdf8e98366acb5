package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
)

// Bounds of the search below a device.
const (
	maxDirs  = 4096
	maxNodes = 64
)

// compat returns the ID that bitstreams must fit, in 32 digits; empty if the region has none:
// the kernel returns ENOENT then (fpga-region.c).
func (r *reader) compat(p *part) string {
	text, err := r.text(longest, p.dir, "compat_id")
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.problem(p.name, false, err)
		}
		return ""
	}
	if text == "" {
		return ""
	}
	id, err := bitstream.ParseUUID(text)
	switch {
	case err != nil:
		r.problem(p.name, false, &fs.PathError{Op: "read", Path: filepath.Join(p.dir, "compat_id"), Err: err})
		return ""
	case id.IsZero() || strings.Trim(id.Hex(), "f") == "":
		r.problem(p.name, false, fmt.Errorf("%s is %s, which is no ID", filepath.Join(p.dir, "compat_id"), id.Hex()))
		return ""
	}
	return id.Hex()
}

// nodes returns those of the devices in a region: below the device that the region is of,
// which is its own in a device tree. A PCI function is the card's, and counts if the
// region is alone in it. What is of a manager or of another region is not.
func (r *reader) nodes(f *found, p *part, alone bool, all []*part) []string {
	w := &walk{reader: r, device: p.name, skip: map[string]bool{}}
	for _, other := range all {
		if other != p {
			w.skip[other.dir] = true
			if other.device != p.device {
				w.skip[other.device] = true
			}
		}
	}
	start := p.device
	isFunction := f.function != nil && filepath.Base(p.device) == f.function.String()
	if p.device == f.device && !isFunction || isFunction && !alone {
		start = p.dir
	}
	w.down(start, 0)
	return w.found()
}

// management returns the nodes by which a card can be programmed: what the manager has in
// the class misc, and what is below its device and in no region.
func (r *reader) management(f *found, given map[string]bool, all []*part) []string {
	w := &walk{reader: r, device: f.name, skip: map[string]bool{}, managers: true}
	for _, p := range all {
		w.skip[p.dir] = true
		if p.device != f.device {
			w.skip[p.device] = true
		}
	}
	w.node(filepath.Join(r.root, "class", "misc", f.name), f.name)
	w.down(f.device, 0)
	return slices.DeleteFunc(w.found(), func(node string) bool { return given[node] })
}

// walk finds the character devices below a directory. It follows no link.
type walk struct {
	*reader
	device string
	skip   map[string]bool
	// managers: what managers have is searched for, too.
	managers bool
	seen     int
	full     bool
	names    []string
}

// found returns the nodes, in an order that does not change.
func (w *walk) found() []string {
	if w.full {
		w.problem(w.device, false, fmt.Errorf("more than %d directories or %d device nodes are below its device: the rest is left out", maxDirs, maxNodes))
	}
	slices.Sort(w.names)
	return slices.Compact(w.names)
}

func (w *walk) down(dir string, depth int) {
	if w.seen++; w.seen > maxDirs || len(w.names) >= maxNodes || depth > maxDepth {
		w.full = true
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.problem(w.device, false, err)
		}
		return
	}
	if depth > 0 && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "dev" }) {
		w.node(dir, filepath.Base(dir))
	}
	for _, e := range entries {
		below := filepath.Join(dir, e.Name())
		if e.IsDir() && (w.managers || e.Name() != "fpga_manager") && e.Name() != "power" && !w.skip[below] {
			w.down(below, depth+1)
		}
	}
}

// node adds the node of a device of a class, if it has one; name is the device's.
func (w *walk) node(dir, name string) {
	if _, err := w.text(longest, dir, "dev"); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.problem(w.device, false, err)
		}
		return
	}
	if to, err := os.Readlink(filepath.Join(dir, "subsystem")); err == nil && filepath.Base(to) == "block" {
		return
	}
	// DEVNAME is where the kernel has the node, when it is not the device's name.
	uevent, err := w.text(page, dir, "uevent")
	if err == nil {
		for line := range strings.Lines(uevent) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
				name = value
			}
		}
	}
	if name == "" || !filepath.IsLocal(name) || filepath.Clean(name) != name {
		w.problem(w.device, false, fmt.Errorf("%s names the device node %q, which is none below /dev", filepath.Join(dir, "uevent"), name))
		return
	}
	w.names = append(w.names, "/dev/"+name)
}
