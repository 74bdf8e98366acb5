package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

const (
	specMode  = 0o644
	sideMagic = "accelmux-cdi/1"
	// maxSpecSize bounds what is read of a spec file, ours or another's.
	maxSpecSize = 128 << 20
)

// stamp tells whether a file is still the one we know, without reading it. The
// zero stamp is a file that is not there.
type stamp struct {
	inode uint64
	size  int64
	mtime int64
	mode  fs.FileMode
}

func stampOf(path string) stamp {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{}
	}
	return stampFrom(info)
}

func stampFrom(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano(), mode: info.Mode()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

// specFile is the spec file of one kind, and the side file that belongs to it.
type specFile struct {
	kind kind
	dir  string
	// defs are what a runtime that reads the file sees, or would see if nobody
	// had touched it; durable are those that would survive a power cut, too.
	defs, durable definitions
	// written is the file as we put it there; seen is it as the latest Publish
	// left it, which is not the same where a write failed.
	written, seen stamp
	// unsynced says that a power cut may bring back the spec before this one, stale
	// that the spec says what defs are, but not as we would write it.
	unsynced, stale bool
	// side is the payload of the side file, nil if there is none; unless
	// sideKnown, a failed write left either what it was or what it was to be.
	side      []byte
	sideKnown bool
}

func (f *specFile) path() string     { return filepath.Join(f.dir, f.kind.specName()) }
func (f *specFile) sidePath() string { return filepath.Join(f.dir, f.kind.stem()+sideSuffix) }

// intact reports whether the file on disk is the one we wrote.
func (f *specFile) intact() bool {
	if f.written == (stamp{}) && len(f.defs) > 0 {
		return false // it was removed before we saw it
	}
	return stampOf(f.path()) == f.written && (f.side == nil || stampOf(f.sidePath()) != stamp{})
}

// ready reports whether the name means d on disk.
func (f *specFile) ready(name string, d *definition) bool {
	found, ok := f.durable[name]
	return ok && found.same(d)
}

// commit makes the disk say next, and writes only if it does not yet. After an
// error, defs and durable say what is there.
//
//	              the spec is    the side file explains
//	before        defs           what defs are
//	side file     defs           both
//	spec          next           both
//	side file     next           what next is
//
// So wherever it fails or is stopped, the side file explains every name of the
// spec that is there. Where there is nothing to explain, there is no side file,
// and a step that changes nothing writes nothing.
func (f *specFile) commit(w checkpoint.Writer, next definitions) error {
	defer func() { f.seen = stampOf(f.path()) }()
	if err := f.settle(w); err != nil {
		return err
	}
	if !f.intact() {
		f.durable, f.sideKnown = nil, false
	} else if !f.stale && f.defs.same(next) && f.durable.same(next) {
		return f.explain(w, next)
	}
	if len(next) == 0 {
		return f.remove(w)
	}
	if err := f.explain(w, f.defs, next); err != nil {
		return err
	}
	err := w.ReplaceWith(f.path(), specMode, func(file io.Writer) error { return next.write(file, f.kind) })
	if err != nil && !errors.Is(err, checkpoint.ErrNotDurable) {
		return err // the file is what it was
	}
	f.written, f.defs, f.stale = stampOf(f.path()), next, false
	if err != nil {
		f.unsynced, f.durable = true, common(f.durable, next)
		return err
	}
	if f.written == (stamp{}) {
		f.durable = nil
		return fmt.Errorf("replace %s: somebody has removed it: %w", f.path(), fs.ErrNotExist)
	}
	f.durable = next
	return f.explain(w, next)
}

// settle makes sure that defs are the only spec that a power cut can leave, as
// the side file is about to forget the one before.
func (f *specFile) settle(w checkpoint.Writer) error {
	if !f.unsynced {
		return nil
	}
	var err error
	if w.Before != nil {
		err = w.Before(checkpoint.OpSyncDir, f.path())
	}
	if err == nil {
		err = checkpoint.SyncDir(f.dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sync the directory of %s: %w: %w", f.path(), checkpoint.ErrNotDurable, err)
	}
	f.unsynced, f.durable = false, f.defs
	return nil
}

// explain makes the side file say what the specs, any of which may be found
// beside it, cannot say themselves.
func (f *specFile) explain(w checkpoint.Writer, specs ...definitions) error {
	side, err := encodeSide(specs...)
	if err != nil {
		return err
	}
	if f.sideKnown && bytes.Equal(side, f.side) {
		return nil
	}
	f.sideKnown = false
	if side != nil {
		err = w.Write(f.sidePath(), sideMagic, side)
	} else {
		err = w.Remove(f.sidePath())
	}
	if err != nil {
		return err
	}
	f.side, f.sideKnown = side, true
	return nil
}

// remove deletes both files. A spec without devices would be invalid. As long as the
// spec cannot be deleted, its definitions stay what they are.
func (f *specFile) remove(w checkpoint.Writer) error {
	fail := func(err error) error { return fmt.Errorf("%s defines no device any more: %w", f.path(), err) }
	if err := w.Remove(f.path()); err != nil {
		return fail(err)
	}
	f.defs, f.durable, f.written = nil, nil, stamp{}
	f.sideKnown, f.stale = false, false
	if err := w.Remove(f.sidePath()); err != nil {
		return fail(err)
	}
	f.side, f.sideKnown = nil, true
	if err := checkpoint.SyncDir(f.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	return nil
}

// common are the definitions that both have.
func common(a, b definitions) definitions {
	out := definitions{}
	for name, d := range a {
		if d.same(b[name]) {
			out[name] = d
		}
	}
	return out
}

// sideFile is what a spec cannot say.
type sideFile struct {
	Definitions []sideDefinition `json:"definitions"`
}

// sideDefinition is a name that is not the device's ID.
type sideDefinition struct {
	Name   string          `json:"name"`
	Device string          `json:"device"`
	Base   json.RawMessage `json:"base"`
}

// encodeSide is the payload of the side file that explains each of the specs,
// given oldest first, or nil if they say it all. A name that means different
// things in them has an entry for each, in that order.
func encodeSide(specs ...definitions) ([]byte, error) {
	needed := map[string]bool{}
	for _, defs := range specs {
		for name, d := range defs {
			if name != d.key.ID {
				needed[name] = true
			}
		}
	}
	if len(needed) == 0 {
		return nil, nil
	}
	var side sideFile
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		var all []*definition
		for _, defs := range specs {
			if d := defs[name]; d != nil && !slices.ContainsFunc(all, d.same) {
				all = append(all, d)
			}
		}
		for _, d := range all {
			base, err := d.base.text()
			if err != nil {
				return nil, fmt.Errorf("definition %s: %w", name, err)
			}
			side.Definitions = append(side.Definitions, sideDefinition{
				Name: name, Device: d.key.ID, Base: json.RawMessage(base),
			})
		}
	}
	return encodeSpec(side)
}

// meanings are what a side file says that a name means, in a spec that may be
// the one beside it; the newest is last.
type meanings map[string][]*definition

// loadSide reads a side file. Whatever is wrong with one entry costs that entry.
func loadSide(path string, k kind) (meanings, []byte, error) {
	payload, err := checkpoint.Read(path, sideMagic)
	if err != nil {
		return nil, nil, err
	}
	var side sideFile
	if err := json.Unmarshal(payload, &side); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w: %w", path, checkpoint.ErrCorrupt, err)
	}
	found := meanings{}
	for _, entry := range side.Definitions {
		d := &definition{key: inventory.Key{Backend: k.backend, ID: entry.Device}}
		base, err := recode(entry.Base)
		if err != nil || base == "" {
			continue
		}
		d.base = read(base)
		found[entry.Name] = append(found[entry.Name], d)
	}
	return found, payload, nil
}

// recode gives indented JSON its canonical text back; nothing stays nothing.
func recode(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	edits, err := decode(string(raw))
	if err != nil {
		return "", err
	}
	return encode(edits)
}

// find returns which device a name on disk belongs to. If the edits are none of those that the side file knows, the
// disk is right.
func (m meanings) find(k kind, name, text string) *definition {
	known := m[name]
	if len(known) == 0 {
		return &definition{key: inventory.Key{Backend: k.backend, ID: name}, base: read(text)}
	}
	for _, d := range slices.Backward(known) {
		if d.base.sum == sumOf(text) {
			return d
		}
	}
	return &definition{key: known[len(known)-1].key, base: read(text)}
}

// adopt takes over definitions that only the side file has: the spec was lost.
func (f *specFile) adopt(side meanings) {
	for name, known := range side {
		d := known[len(known)-1]
		edits, err := d.edits()
		if _, there := f.defs[name]; there || err != nil || checkEdits(edits) != nil || parser.ValidateDeviceName(name) != nil {
			continue
		}
		f.defs[name] = d
	}
}
