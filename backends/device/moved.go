package device

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/statefile"
)

// movedFile has what is remembered of interfaces and HCAs that are in another network namespace, in a file, so that a
// device in use is the same after a restart. The file counts until the next boot.
type movedFile struct {
	*match.Moved
	records records
	log     *slog.Logger
	mu      sync.Mutex
	// failed: the last write failed, which was logged.
	failed bool
}

// movedRecord is the content of the file.
type movedRecord struct {
	Boot  string              `json:"boot"`
	Reads map[string][]string `json:"reads"`
}

// movedOf returns the memory for settings: that of the file when it is called first, or for another directory.
func (b *Backend) movedOf(cfg *config) *movedFile {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.recordsOf(cfg)
	if b.moved != nil && b.moved.records == all {
		return b.moved
	}
	var was movedRecord
	boot, err := all.boot()
	text, wrong := statefile.Read(all.moved())
	if err != nil || wrong != nil || json.Unmarshal(text, &was) != nil || was.Boot != boot {
		was.Reads = nil // what is on the node is read again
	}
	b.moved = &movedFile{Moved: match.NewMoved(was.Reads), records: all, log: b.log}
	return b.moved
}

func (r records) moved() string { return filepath.Join(r.dir, ".interfaces") } // an ID does not begin with a dot

// store writes the memory if it changed. It is not synced: it does not count after a boot.
func (m *movedFile) store(sysfs string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	boot, err := m.records.boot()
	if err != nil { // then it is unknown whether a file counts
		return
	}
	reads, changed := m.Reads(sysfs)
	if !changed && !m.failed {
		return
	}
	text, err := json.Marshal(movedRecord{boot, reads})
	if err == nil {
		err = statefile.Replace(m.records.moved(), text, 0o600, false)
	}
	if err != nil && !m.failed {
		m.log.Warn("recording network interfaces failed: if the backend restarts, a device whose interface is in a pod may be missing until the pod ends", "file", m.records.moved(), "error", err)
	}
	m.failed = err != nil
}

// readsInterfaces reports whether a kind reads what sysfs does not show while it is in another network namespace.
func readsInterfaces(k *description.Compiled) bool {
	texts := []string{k.Match.Where, k.Kind.ID, k.Kind.MergeBy}
	for _, named := range []map[string]string{k.Kind.Attributes, k.Kind.DeviceInfo.Fields} {
		for _, text := range named {
			texts = append(texts, text)
		}
	}
	all := strings.Join(texts, " ")
	return k.Match.Class != "net" && (strings.Contains(all, "net/") || strings.Contains(all, "infiniband/"))
}
