package match

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Moved remembers what was read of network interfaces and HCAs for the time in which they are in another network
// namespace, such as that of the pod that has the function: sysfs shows only those of the namespace in which it was
// mounted (ns_type of the kernel's classes net and infiniband), and the directory of the class below the function is empty meanwhile. Without it
// such a function would have other attributes, or match no more, while it is in use. Health is never remembered.
// It is safe for concurrent use.
type Moved struct {
	mu sync.Mutex
	// reads are results by directory and file of sysfs.
	reads   map[string][]string
	changed bool
}

// NewMoved returns what [Moved.Reads] of an earlier process returned.
func NewMoved(reads map[string][]string) *Moved {
	if reads == nil {
		reads = map[string][]string{}
	}
	return &Moved{reads: reads}
}

// Reads returns what is remembered of objects that exist below the root of sysfs. Changed reports whether it is
// other than at the last call.
func (m *Moved) Reads(sysfs string) (reads map[string][]string, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed, m.changed = m.changed, false
	reads = map[string][]string{}
	for key, result := range m.reads {
		dir, _, _ := strings.Cut(key, keyEnd)
		if _, err := os.Lstat(filepath.Join(sysfs, dir)); err == nil {
			reads[key] = result
		}
	}
	changed = changed || len(reads) != len(m.reads)
	m.reads = reads
	return reads, changed
}

// keyEnd is between directory and file in a key: no name in sysfs has it.
const keyEnd = "\x00"

// Remembering returns the object with such a memory.
func (o *Object) Remembering(m *Moved) *Object {
	also := *o
	also.moved = m
	return &also
}

// remember returns a result of a read of the object, or the one that is remembered if what was read is in another
// network namespace. Empty is no result.
func (o *Object) remember(file string, result []string) []string {
	parts := strings.Split(file, "/")
	i := slices.IndexFunc(parts[:len(parts)-1], func(part string) bool { return part == "net" || part == "infiniband" })
	if o.moved == nil || o.Dir == "" || i < 0 {
		return result
	}
	m, key := o.moved, o.Dir+keyEnd+file
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.reads[key]
	switch {
	case len(result) > 0:
		if !slices.Equal(before, result) {
			m.reads[key], m.changed = result, true
		}
		return result
	case !ok:
		return nil
	}
	if entries, err := os.ReadDir(filepath.Join(o.sysfs, o.Dir, filepath.Join(parts[:i+1]...))); err == nil && len(entries) == 0 {
		return slices.Clone(before)
	}
	delete(m.reads, key)
	m.changed = true
	return nil
}
