package cdi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/accelmux/accelmux/core/checkpoint"
)

const (
	specMode = 0o644
	// maxSpecSize bounds the size of a spec file of an earlier run, in bytes.
	maxSpecSize = 128 << 20
)

// errForeign reports that a file is a valid spec, but not one of ours.
var errForeign = errors.New("not a file of accelmux")

// stamp identifies a version of a file without reading it. The zero stamp is a missing file.
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

// specFile is the spec file of one kind.
type specFile struct {
	kind kind
	dir  string
	// defs is what the file defines, or must define again if another process changed it.
	defs definitions
	// written is the file as this store wrote or loaded it; zero if it has to be written.
	written stamp
	// outdated is set if the file has defs, but not as this version writes them.
	outdated bool
	// withheld are those of defs that are not in the file, with the reasons: it was removed or
	// changed, and the host's files or the configuration no longer allow what they give.
	withheld map[string]error
}

// loadFile reads a spec file of an earlier run.
func loadFile(path string) (*specFile, error) {
	file, err := checkpoint.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSpecSize {
		return nil, fmt.Errorf("larger than %d bytes", maxSpecSize)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSpecSize))
	if err != nil {
		return nil, err
	}
	text, defs, err := decodeSpec(content)
	if err != nil {
		return nil, err
	}
	k, ok := parseKind(text)
	if !ok || k.fileName() != filepath.Base(path) {
		return nil, errForeign
	}
	again, err := defs.encode(k)
	if err != nil {
		return nil, err
	}
	f := &specFile{kind: k, dir: filepath.Dir(path), defs: defs, outdated: !bytes.Equal(again, content)}
	if info.Mode().Perm() == specMode { // else container runtimes of other users cannot read it
		f.written = stampFrom(info)
	}
	return f, nil
}

func (f *specFile) path() string { return filepath.Join(f.dir, f.kind.fileName()) }

// intact reports whether the file on disk is the one that was written or loaded.
func (f *specFile) intact() bool {
	if f.written == (stamp{}) && len(f.defs) > len(f.withheld) {
		return false
	}
	return stampOf(f.path()) == f.written
}

// ready reports whether the name is on disk with this meaning.
func (f *specFile) ready(name, text string) bool {
	found, ok := f.defs[name]
	return ok && found == text && f.withheld[name] == nil && f.written != (stamp{})
}

// commit makes the file define next, and writes only if it does not yet. What defs has and the
// file does not is withheld unless it passes the check; what is in the file stays in it. The
// caller has checked what defs does not have. After an error, defs has what is on disk, or must be
// there again.
func (f *specFile) commit(w checkpoint.Writer, next definitions, check func(text string) error) error {
	intact := f.intact()
	withheld := f.refused(next, !intact, check)
	if !intact {
		f.written = stamp{}
	} else if !f.outdated && f.defs.without(f.withheld).same(next.without(withheld)) {
		f.defs, f.withheld = next, withheld
		return nil
	}
	written := next.without(withheld)
	if len(written) == 0 {
		if err := f.remove(w); err != nil {
			return err
		}
		f.defs, f.withheld = next, withheld
		return nil
	}
	content, err := written.encode(f.kind)
	if err != nil {
		return err
	}
	if err := w.Replace(f.path(), content, specMode); err != nil {
		return err // the file is what it was
	}
	f.written, f.defs, f.withheld, f.outdated = stampOf(f.path()), next, withheld, false
	if f.written == (stamp{}) {
		return fmt.Errorf("%s was removed while it was written: %w", f.path(), fs.ErrNotExist)
	}
	return nil
}

// refused returns those of next that are to be withheld. lost: the file has none of defs.
func (f *specFile) refused(next definitions, lost bool, check func(text string) error) map[string]error {
	var refused map[string]error
	if !lost && len(f.withheld) == 0 {
		return nil
	}
	for name, text := range next {
		if known, ok := f.defs[name]; !ok || known != text || !lost && f.withheld[name] == nil {
			continue
		}
		if err := check(text); err != nil {
			if refused == nil {
				refused = map[string]error{}
			}
			refused[name] = err
		}
	}
	return refused
}

// remove deletes the file, because a spec without devices would be invalid. If that fails, its
// definitions stay what they are.
func (f *specFile) remove(w checkpoint.Writer) error {
	if err := w.Remove(f.path()); err != nil {
		return fmt.Errorf("%s defines no device any more: %w", f.path(), err)
	}
	f.defs, f.withheld, f.written, f.outdated = nil, nil, stamp{}, false
	return nil
}
