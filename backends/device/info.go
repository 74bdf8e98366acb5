package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/statefile"
)

// infoDir is the directory of files with information on devices, in which those of device plugins are in dp, and
// infoVersion their version (device-info-spec of k8snetworkplumbingwg).
const infoDir, infoVersion, infoSuffix = "/var/run/k8s.cni.cncf.io/devinfo", "1.1.0", "-device.json"

// infoFiles remembers the files that were written, to remove them. They stay when this process ends, since pods
// start while the agent restarts; the next process removes those whose devices are gone, if the kind is configured
// still.
type infoFiles struct {
	mu sync.Mutex
	// written are paths by kind.
	written map[string]map[string]bool
}

// adopt takes over the files with a prefix from an earlier process, if none of the kind was written yet: those of
// IDs that are PCI addresses, or begin with the kind's name. A resource may have the name of another one as its
// beginning.
func (f *infoFiles) adopt(kind, prefix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.written[kind] != nil {
		return
	}
	found, _ := filepath.Glob(prefix + "*" + infoSuffix) // no file is removed if it cannot be read
	all := map[string]bool{}
	for _, at := range found {
		id := strings.TrimSuffix(strings.TrimPrefix(at, prefix), infoSuffix)
		if _, err := pci.ParseAddress(id); err == nil || strings.HasPrefix(id, kind+"-") {
			all[at] = true
		}
	}
	if f.written == nil {
		f.written = map[string]map[string]bool{}
	}
	f.written[kind] = all
}

// replace removes the files of a kind that were written before, and are none of the new ones.
func (f *infoFiles) replace(kind string, written map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := range f.written[kind] {
		if !written[at] {
			_ = os.Remove(at) // a file that stays names a device that no pod gets
		}
	}
	if f.written == nil {
		f.written = map[string]map[string]bool{}
	}
	f.written[kind] = written
}

// keep removes the files of kinds that the settings do not have.
func (f *infoFiles) keep(cfg *config) {
	f.mu.Lock()
	gone := map[string]bool{}
	for kind := range f.written {
		gone[kind] = true
	}
	f.mu.Unlock()
	for _, k := range cfg.kinds {
		delete(gone, k.Name)
	}
	for kind := range gone {
		f.replace(kind, nil)
	}
}

// writeInfos writes the files of the devices, unless the directory of Multus is not there: then there is no Multus,
// or it is not visible. In that directory the agent made infoDir before this process started.
func (s source) writeInfos(units []engine.Unit) (problems []engine.Problem) {
	root := filepath.Join(s.infoDir, "dp")
	if _, err := os.Stat(filepath.Dir(s.infoDir)); s.kind.DeviceInfo.Resource == "" || err != nil {
		s.infos.replace(s.kind.Name, nil)
		return nil
	}
	prefix := filepath.Join(root, strings.ReplaceAll(s.kind.DeviceInfo.Resource, "/", "-")) + "-"
	s.infos.adopt(s.kind.Name, prefix)
	written := map[string]bool{}
	for _, unit := range units {
		d := unit.Devices[0]
		at := prefix + d.ID + infoSuffix
		text, err := info(&s.kind.DeviceInfo, readingIn(d))
		if err == nil {
			err = writeInfo(at, text)
		}
		if err != nil {
			problems = append(problems, engine.Problem{Device: d.ID, Err: s.wrong(fmt.Errorf("the file with its information for Multus is not written: %w", err))})
			continue
		}
		written[at] = true
	}
	s.infos.replace(s.kind.Name, written)
	return problems
}

// info returns a device's information.
func info(d *description.CompiledDeviceInfo, r reading) ([]byte, error) {
	fields := map[string]string{}
	for name, p := range d.Fields {
		value, err := p.Eval(r.objects[0])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if text := fmt.Sprint(value); err == nil && text != "" {
			fields[name] = text
		}
	}
	return json.Marshal(map[string]any{"type": d.Type, "version": infoVersion, d.Type: fields})
}

// writeInfo writes a file, which readers see as a whole, unless it has this text.
func writeInfo(at string, text []byte) error {
	if before, err := statefile.Read(at); err == nil && string(before) == string(text) {
		return nil
	}
	return statefile.Replace(at, text, 0o644, false)
}
