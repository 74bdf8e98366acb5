package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MaxSize is the most bytes that [Read] accepts, header included. It is far more
// than a node needs, and bounds the memory that a damaged file can cost.
const MaxSize = 256 << 20

// tempSuffix is the suffix of temporary files. Container runtimes and our own loaders skip
// them.
const tempSuffix = ".tmp"

// Errors that a caller decides by.
var (
	// ErrCorrupt reports that a file exists but is not what Write wrote.
	ErrCorrupt = errors.New("corrupt state file")
	// ErrVersion, beside ErrCorrupt, reports that the file is of the right kind, but of another
	// version: another program may read it.
	ErrVersion = errors.New("other version")
	// ErrNotDurable reports that the new content is in place and visible, but may
	// not survive a power cut: its directory could not be synced.
	ErrNotDurable = errors.New("not durable")
)

// Op is a step of [Writer.Replace], or of [Writer.Remove].
type Op string

// The steps, in order.
const (
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpRename  Op = "rename"
	OpSyncDir Op = "sync directory"
	// OpRemove is the one step of [Writer.Remove].
	OpRemove Op = "remove"
)

// Writer writes files durably. The zero value is ready to use, and safe for
// concurrent use on different paths.
type Writer struct {
	// Before, if set, is called before each step with the path that is being
	// replaced; an error makes the step fail as if the disk had. It is for tests
	// of full disks and crashes.
	Before func(op Op, path string) error
	// Unsynced leaves out both syncs. A file survives the end of the process at any moment,
	// but a power cut may take it, or leave an empty file in its place.
	Unsynced bool
}

// Replace puts data at path, with exactly the permissions perm, whatever the
// umask: into a temporary file beside it (".<name>.<random>.tmp"), synced, then
// renamed, then the directory synced. A reader sees the old content or the new,
// never a part. On an error the old file is untouched and the temporary one
// removed, except with [ErrNotDurable], where the new content is in place. The
// directory must exist.
func (w Writer) Replace(path string, data []byte, perm fs.FileMode) error {
	temp, err := w.stage(path, data, perm)
	if err == nil {
		if err = w.step(OpRename, path); err == nil {
			err = os.Rename(temp, path)
		}
	}
	if err != nil {
		if temp != "" {
			_ = os.Remove(temp)
		}
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if w.Unsynced {
		return nil
	}
	if err := w.step(OpSyncDir, path); err != nil {
		return fmt.Errorf("replace %s: %w: %w", path, ErrNotDurable, err)
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("replace %s: %w: %w", path, ErrNotDurable, err)
	}
	return nil
}

// stage writes the temporary file. Its name is returned also with an error, if the file
// exists.
func (w Writer) stage(path string, data []byte, perm fs.FileMode) (name string, err error) {
	if err := w.step(OpCreate, path); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+tempSuffix)
	if err != nil {
		return "", err
	}
	name = f.Name()
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if err := w.step(OpWrite, path); err != nil {
		return name, err
	}
	if _, err := f.Write(data); err != nil {
		return name, err
	}
	if err := f.Chmod(perm); err != nil {
		return name, err
	}
	if w.Unsynced {
		return name, nil
	}
	if err := w.step(OpSync, path); err != nil {
		return name, err
	}
	return name, f.Sync()
}

func (w Writer) step(op Op, path string) error {
	if w.Before == nil {
		return nil
	}
	if err := w.Before(op, path); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Remove removes the file. A missing file is no error, also in a read-only directory. The
// directory is not synced.
func (w Writer) Remove(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := w.step(OpRemove, path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// Write replaces path by a header line, "<magic> sha256:<hex of the payload>",
// and the payload, mode 0600. A directory that is missing is created, mode 0700.
// Magic is "<kind>/<version>" without white space.
func (w Writer) Write(path, magic string, payload []byte) error {
	if magic == "" || strings.ContainsAny(magic, " \t\r\n") {
		return fmt.Errorf("write %s: %q cannot be the magic of a state file", path, magic)
	}
	if size := headerSize(magic) + len(payload); size > MaxSize {
		return fmt.Errorf("write %s: %d bytes are more than the %d that can be read back", path, size, MaxSize)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return w.Replace(path, append(header(magic, payload), payload...), 0o600)
}

const sumLabel = " sha256:"

func header(magic string, payload []byte) []byte {
	sum := sha256.Sum256(payload)
	return []byte(magic + sumLabel + hex.EncodeToString(sum[:]) + "\n")
}

func headerSize(magic string) int {
	return len(magic) + len(sumLabel) + hex.EncodedLen(sha256.Size) + len("\n")
}

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
