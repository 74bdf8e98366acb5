// Package made records which devices a backend made in Prepare, and for which holder, in a file that
// outlives the process. A backend with potential devices calls Put before it makes one and Remove when it
// is gone. After a crash in between the device may exist or not; the hardware shows which. A device that
// exists and is not in the record was made by other means, and must not be destroyed. What is set on a device for a
// holder can be recorded in the same way.
package made

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"

	"github.com/accelmux/accelmux/backends/statefile"
)

// Record has the holders of the devices that were made, by device ID. The zero value ends with the process.
// Its methods are safe for concurrent use. In a takeover the backends of two agents have the same file, and only one
// of them makes devices.
type Record struct {
	path    string
	mu      sync.Mutex
	holders map[string]string
	// seen is the file when it was read last; nil if there was none.
	seen os.FileInfo
}

// Open reads the record of earlier processes. Without a path, the record ends with the process. The
// directory is made when it is needed. A damaged file is an error: without the record it is unknown which devices may be destroyed.
func Open(path string) (*Record, error) {
	r := &Record{path: path, holders: map[string]string{}}
	if err := r.read(); err != nil {
		return nil, err
	}
	return r, nil
}

// Files are the records of a process, by file, since there must be one of a file, whatever settings apply. The zero value is
// ready. It is not safe for concurrent use.
type Files struct{ open map[string]*Record }

// Open returns the record with a file; nil without a file.
func (f *Files) Open(path string) (*Record, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // documented
	}
	if known := f.open[path]; known != nil {
		return known, nil
	}
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	if f.open == nil {
		f.open = map[string]*Record{}
	}
	f.open[path] = r
	return r, nil
}

// read reads the file if it is another one than before.
func (r *Record) read() error {
	if r.path == "" {
		return nil
	}
	info, err := os.Lstat(r.path)
	if err == nil && r.seen != nil && os.SameFile(info, r.seen) && info.ModTime().Equal(r.seen.ModTime()) {
		return nil
	}
	var data []byte
	if err == nil {
		data, err = statefile.Read(r.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the record of what was made: %w", err)
	}
	var holders map[string]string
	if err = json.Unmarshal(data, &holders); err == nil && holders == nil { // null
		err = errors.New("it has no devices")
	}
	if err != nil {
		return fmt.Errorf("the record of what was made, %s, is damaged (%w): remove it; what it had then counts as made by hand", r.path, err)
	}
	r.holders, r.seen = holders, info
	return nil
}

// Holder returns the holder for which a device was made; "" if it is not in the record.
func (r *Record) Holder(device string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.read() // what cannot be read is as it was
	return r.holders[device]
}

// Put records that a device is made, or was made, for a holder. It is on disk when the error is nil.
func (r *Record) Put(device, holder string) error {
	return r.change(func(all map[string]string) { all[device] = holder })
}

// Remove removes devices that do not exist any more. It is on disk when the error is nil.
func (r *Record) Remove(devices ...string) error {
	return r.change(func(all map[string]string) {
		for _, device := range devices {
			delete(all, device)
		}
	})
}

// Devices returns the devices of the record with their holders.
func (r *Record) Devices() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.read() // as above
	return maps.Clone(r.holders)
}

func (r *Record) change(change func(map[string]string)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.read(); err != nil {
		return err
	}
	next := map[string]string{} // the zero value has none
	maps.Copy(next, r.holders)
	change(next)
	if maps.Equal(next, r.holders) {
		return nil
	}
	if r.path != "" {
		data, err := json.Marshal(next)
		if err == nil {
			err = statefile.Replace(r.path, data, 0o600, true)
		}
		if err != nil {
			return fmt.Errorf("write the record of what was made: %w", err)
		}
	}
	r.holders = next
	return nil
}
