package manifest

import (
	"path/filepath"
	"slices"
	"sync"
)

// latest are the manifests that were loaded last. A start loads that of a backend three times: to check its settings, to start
// its program, and for the hardware that it serves. To decode and check one takes a tenth of the start.
var latest memory

// maxLatest bounds the memory: the programs of a node.
const maxLatest = 64

// memory has manifests by their files. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	files map[string]loaded
}

// loaded is a manifest, which nobody changes, with what it was made of.
type loaded struct {
	manifest *Manifest
	from     *loader
}

func (m *memory) put(file string, l loaded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil || len(m.files) >= maxLatest {
		m.files = map[string]loaded{}
	}
	m.files[file] = l
}

func (m *memory) get(file string) (l loaded, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok = m.files[file]
	return l, ok
}

// again returns the manifest that was loaded from the file before, if all that it was made of is the same: that is read, and
// passes the checks. It returns nil otherwise.
func again(file string, checks []Check) *Manifest {
	before, ok := latest.get(file)
	if !ok {
		return nil
	}
	now := &loader{file: file, checks: checks}
	for _, p := range before.from.content {
		if _, err := now.read(p.file, p.name); err != nil {
			return nil
		}
	}
	if !slices.Equal(now.content, before.from.content) {
		return nil
	}
	// All presets are still there, so as many are the same.
	if dir := before.from.dir; dir != "" {
		if files, err := filepath.Glob(presetsIn(dir)); err != nil || len(files) != before.from.presetFiles {
			return nil
		}
	}
	return before.manifest
}
